"""The page in a real browser: Chromium through its driver, without a window."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

import hesse
from web_server import Server, running

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DRIVER = shutil.which("chromedriver")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)

pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None,
    reason="there is no browser: apt-get install chromium chromium-driver",
)

Browser = Any


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("seconds=20.0") as found:
        yield found


@pytest.fixture(scope="module")
def driver() -> Iterator[Browser]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    found.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    yield found
    found.quit()


class Page:
    """What a person does on the page, and sees."""

    def __init__(self, driver: Browser, server: Server) -> None:
        self.driver = driver
        self.address = f"http://127.0.0.1:{server.port}/"

    def open(self, fragment: str = "") -> Page:
        self.driver.get("about:blank")
        self.driver.get(self.address + (f"#{quote(fragment, safe='=&')}" if fragment else ""))
        self.until(lambda: self.find("#result .katex"))
        return self

    def find(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[Any]:
        return list(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def until(self, condition: Callable[[], Any]) -> Any:
        ignored = (webdriver_errors(),)
        return WebDriverWait(self.driver, 20, 0.05, ignored_exceptions=ignored).until(lambda _: condition())

    def type(self, formula: str) -> None:
        field = self.find("#formula")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(formula, Keys.ENTER)

    def derivative(self) -> str:
        """The LaTeX that is typeset as the answer (KaTeX keeps it for screen readers)."""
        return str(self.find("#result annotation").get_attribute("textContent"))

    def click(self, selector: str) -> None:
        self.until(lambda: [self.find(selector).click()])

    def choose(self, select: str, words: str) -> None:
        self.until(lambda: [Select(self.find(select)).select_by_visible_text(words)])

    def clipboard(self) -> str:
        return str(self.driver.execute_script("return navigator.clipboard.readText()"))


def webdriver_errors() -> type[Exception]:
    from selenium.common.exceptions import WebDriverException  # noqa: PLC0415

    return WebDriverException


@pytest.fixture
def page(driver: Browser, server: Server) -> Iterator[Page]:
    driver.get_log("browser")
    driver.get_log("performance")
    found = Page(driver, server)
    yield found
    errors = [entry["message"] for entry in driver.get_log("browser") if "422" not in entry["message"]]
    assert not errors


def test_from_formula_to_code(page: Page) -> None:
    """Type a formula, read the Hessian, change a type, read it again, and copy the code of it."""
    page.open()
    page.type("x'*A*x")
    page.until(lambda: "A" in [label.text for label in page.all("#types label")])
    page.click("label[for=order-2]")
    page.until(lambda: page.find("#result-title").text == "Hessian by x")
    page.until(lambda: page.derivative() == r"A + A^{\top}")
    assert page.find("#result .katex-html").is_displayed()
    page.choose("#type-A", "symmetric matrix")
    page.until(lambda: page.derivative() == "2 A")
    page.click("#tab-numpy")
    expected = hesse.parse("x'*A*x", A="symmetric matrix").diff("x", "x").to("numpy")
    page.until(lambda: page.find("#code").get_attribute("textContent") == expected)
    page.click("#copy-code")
    page.until(lambda: page.find("#toast").text == "NumPy code copied")
    assert page.clipboard() == expected
    page.click("#copy-latex")
    page.until(lambda: page.clipboard() == "2 A")


def test_no_request_leaves_the_computer(page: Page) -> None:
    """Everything the page loads comes from the server."""
    page.open()
    for tab in ("steps", "structure", "cost", "graph"):
        page.click(f"#tab-{tab}")
        page.until(lambda tab=tab: page.find(f"#tab-{tab}").get_attribute("aria-selected") == "true")
    asked = []
    for entry in page.driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
    assert len(asked) > 15
    assert {urlsplit(url).netloc for url in asked if url.startswith("http")} == {
        urlsplit(page.address).netloc
    }
    assert any(url.endswith(".woff2") for url in asked)


def test_matrix_form(page: Page) -> None:
    """A derivative of order 4 is typeset as a matrix too; the notation is offered only where it exists."""
    page.open("f=A*X*B&by=X&in=kronecker")
    page.until(lambda: page.find("#kronecker-matrix .katex-html").is_displayed())
    annotation = page.find("#kronecker-matrix annotation").get_attribute("textContent")
    assert annotation == r"M = B^{\top} \otimes A"
    assert page.find("#kronecker-note").text.startswith("As a matrix: vec(dF) = M*vec(dX)")
    page.until(lambda: page.find("#code").get_attribute("textContent") == "kron(B', A)")
    page.type("x'*A*x")
    page.until(lambda: not page.find("#kronecker").is_displayed())
    page.until(lambda: page.find("#code").get_attribute("textContent") == "(A + A')*x")
    assert not page.all("#tab-kronecker")


def test_a_matrix_form_that_is_not_shown(page: Page) -> None:
    """The page says why; it gets such an answer here without the server."""
    page.open("f=A*X*B&by=X")
    page.until(lambda: page.find("#kronecker-matrix .katex-html").is_displayed())
    page.driver.execute_async_script(
        "const done = arguments[0];"
        "const answer = {title: '', shape: [], derivative_latex: 'x', layout: '', kronecker: null,"
        " kronecker_problem: 'The derivative as a matrix is not shown.', convexity: []};"
        "import('/result.js').then((page) => { page.showResult(answer); done(); });"
    )
    assert page.find("#kronecker-note").text == "The derivative as a matrix is not shown."
    assert not page.find("#kronecker-matrix").is_displayed()


def test_panels(page: Page) -> None:
    """Derivation, structure, cost and graph of a Hessian with blocks."""
    page.open("f=norm2(T - U*V')^2&by=U,U&show=steps")
    page.until(lambda: len(page.all(".steps li .katex")) > 3)
    page.click("#tab-structure")
    page.until(lambda: page.find(".structure .summary").text.startswith("Block-diagonal"))
    assert len(page.all(".cells rect")) > 20
    page.click("#tab-cost")
    before = page.until(lambda: page.find(".measure .value").text)
    page.find("#size-m").send_keys(Keys.ARROW_RIGHT * 5)
    page.until(lambda: page.find(".measure .value").text not in ("", before))
    page.click("#tab-graph")
    page.until(lambda: len(page.all(".graph svg g")) >= 2)


def test_errors_point_at_the_place(page: Page) -> None:
    """A formula that cannot be read shows the text with a caret; the next good one makes it go away."""
    page.open()
    page.type("x'*(A**x")
    page.until(lambda: page.find("#problem pre").is_displayed())
    lines = page.find("#problem pre").get_attribute("textContent").splitlines()
    assert lines == ["x'*(A**x", "      ^"]
    assert page.find("#formula").get_attribute("aria-invalid") == "true"
    page.type("x'*x")
    expected = hesse.parse("x'*x").diff("x", "x").to("latex")
    page.until(lambda: page.derivative() == expected)
    assert not page.find("#problem").is_displayed()


def test_no_empty_cards_beside_an_error(page: Page) -> None:
    """Without an answer there is nothing to copy and nothing more to say about it."""
    cards = [".result", ".panels", "#copy-text"]

    def shown() -> list[bool]:
        return [page.find(card).is_displayed() for card in cards]

    page.driver.get("about:blank")
    page.driver.get(page.address + "#f=x%20y")
    page.until(lambda: page.find("#problem").is_displayed())
    assert shown() == [False, False, False]
    page.type("x'*x")
    page.until(lambda: page.find("#result .katex"))
    assert shown() == [True, True, True]
    page.type("x'*(x")  # what stays, dimmed, is not the derivative of this text
    page.until(lambda: page.find("#problem").is_displayed())
    assert shown() == [True, True, False]
    page.type("log(-norm2(x))")  # is read, but has no derivative at any point
    page.until(lambda: "not finite" in page.find("#problem").text)
    assert shown() == [False, False, False]
    page.type("x'*x")
    page.until(lambda: page.find("#result .katex"))
    assert shown() == [True, True, True]
    page.find("#formula").send_keys(Keys.CONTROL, "a")
    page.find("#formula").send_keys(Keys.DELETE)
    page.until(lambda: "choose an example" in page.find("#result").text)
    assert shown() == [True, False, False]


def test_link_shows_the_same_page(page: Page) -> None:
    """The address has the whole question, and opening it asks the same."""
    page.open()
    page.type("tr(A*X*B*X')")
    page.until(lambda: page.find("#type-B"))
    page.click("label[for=order-1]")
    page.choose("#by-0", "X")
    page.choose("#type-A", "symmetric matrix")
    derivative = hesse.parse("tr(A*X*B*X')", A="symmetric matrix").diff("X").to("latex")
    page.until(lambda: page.derivative() == derivative)
    page.click("#share")
    page.until(lambda: page.clipboard().startswith(page.address))
    link = page.clipboard()
    asked = parse_qs(urlsplit(link).fragment)
    assert (asked["f"], asked["by"], asked["type"]) == (["tr(A*X*B*X')"], ["X"], ["A=symmetric matrix"])
    page.driver.get("about:blank")
    page.driver.get(link)
    page.until(lambda: page.derivative() == derivative)
    assert Select(page.find("#type-A")).first_selected_option.text == "symmetric matrix"


def test_keyboard(page: Page) -> None:
    """Everything can be reached with keys: tabs with arrows, Escape back to the formula."""
    page.open("f=x'*A*x&by=x&show=code&in=numpy")
    page.until(lambda: page.find("#tab-code"))
    page.find("#tab-code").send_keys(Keys.ARROW_RIGHT)
    page.until(lambda: page.find("#tab-steps").get_attribute("aria-selected") == "true")
    assert page.driver.switch_to.active_element.get_attribute("id") == "tab-steps"
    page.driver.switch_to.active_element.send_keys(Keys.END)
    page.until(lambda: page.find("#tab-graph").get_attribute("aria-selected") == "true")
    page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert page.driver.switch_to.active_element.get_attribute("id") == "formula"
    nameless = page.driver.execute_script(
        "return [...document.querySelectorAll('button,select,input,textarea')]"
        ".filter(e => !(e.labels?.length || e.ariaLabel || e.textContent.trim())).map(e => e.outerHTML)"
    )
    assert nameless == []


def test_light_and_dark(page: Page) -> None:
    """The page follows the system, until the button says otherwise, and remembers that."""

    def background() -> str:
        return str(page.driver.execute_script("return getComputedStyle(document.body).backgroundColor"))

    def prefer(scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    prefer("light")
    page.open()
    light = background()
    prefer("dark")
    page.until(lambda: background() != light)
    page.click("#theme")
    page.until(lambda: background() == light)
    page.open()
    assert background() == light
    page.driver.execute_script("localStorage.clear()")
    prefer("light")


def test_phone(page: Page) -> None:
    """On a narrow screen nothing is wider than it, and the answer comes right after the question."""
    size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for fragment in (
        "f=sum(log(exp(X*W)*vector(1)))-tr(Y'*X*W)&by=W,W&show=code&in=numpy",
        "f=norm2(M.*(T - U*V'))^2&by=U,U&show=cost",
        "f=norm2(A*x - y)&by=x,x&show=graph",
    ):
        page.open(fragment)
        page.until(lambda: page.find("#panel").text)
        assert page.driver.execute_script("return document.documentElement.scrollWidth") <= 390
        assert page.find(".result").location["y"] < page.find("#types").location["y"]
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
