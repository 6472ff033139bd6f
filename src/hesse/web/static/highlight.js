// Colours for code: comments, strings, numbers and a few words of each language.

const PYTHON = "and as assert def elif else for from if import in is lambda None not or raise return with True False";
const WORDS = {
  numpy: PYTHON,
  torch: PYTHON,
  jax: PYTHON,
  matlab: "assert else elseif end for function if isequal nargin return size",
  julia: "begin do else elseif end for function if in let return throw using where",
  cpp: "auto const class double else for if include inline int long namespace return size_t static std struct template throw typename using void",
};
const COMMENTS = { matlab: "%[^\\n]*", julia: "#[^\\n]*", cpp: "//[^\\n]*|/\\*[\\s\\S]*?\\*/|^#[^\\n]*" };
const PYTHON_COMMENT = "#[^\\n]*";
const STRINGS = {
  matlab: "\"[^\"\\n]*\"|(?<![\\w\\])}.'])'[^'\\n]*'",
  julia: '"""[\\s\\S]*?"""|"(?:\\\\.|[^"\\\\\\n])*"',
  cpp: '"(?:\\\\.|[^"\\\\\\n])*"',
};
const PYTHON_STRING = 'r?f?"""[\\s\\S]*?"""|f?"(?:\\\\.|[^"\\\\\\n])*"|f?\'(?:\\\\.|[^\'\\\\\\n])*\'';

export function highlighted(text, language) {
  if (!(language in WORDS)) return [text];
  const words = WORDS[language].split(" ").join("|");
  const pattern = new RegExp(
    `(?<comment>${COMMENTS[language] ?? PYTHON_COMMENT})|(?<string>${STRINGS[language] ?? PYTHON_STRING})` +
      `|\\b(?<keyword>${words})\\b|\\b(?<number>\\d+(?:\\.\\d*)?(?:e[+-]?\\d+)?)\\b|(?<call>[A-Za-z_][\\w.]*)(?=\\()`,
    "gm",
  );
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    const [kind] = Object.entries(match.groups).find(([, found]) => found !== undefined);
    const piece = document.createElement("span");
    piece.className = kind;
    [piece.textContent] = match;
    parts.push(text.slice(end, match.index), piece);
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}
