// Requests to the server. An answer is kept, so that going back to a tab costs nothing.

const KEPT = 200;
const answers = new Map();

export class Problem extends Error {
  constructor(kind, message, position) {
    super(message);
    this.kind = kind;
    this.position = position;
  }
}

async function fetched(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("ConnectionError", "The server does not answer. Is hesse serve still running?", null);
  }
  const data = await response.json();
  if (!response.ok) throw new Problem(data.error.kind, data.error.message, data.error.position);
  return data;
}

export function about() {
  return fetched("api/about");
}

export async function ask(task, question, signal) {
  const body = JSON.stringify(question);
  const key = `${task} ${body}`;
  if (!answers.has(key)) {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetched(`api/${task}`, { method: "POST", headers, body, signal });
    if (answers.size >= KEPT) answers.delete(answers.keys().next().value);
    answers.set(key, answer);
  }
  return answers.get(key);
}
