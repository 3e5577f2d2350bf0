// Functions that all pages of the server use.

document.documentElement.classList.add("js");

const byId = (id) => document.getElementById(id);
const jsonIn = (id) => JSON.parse(byId(id).textContent);

const element = (tag, attributes, ...children) => {
  const one = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) one.setAttribute(name, value);
  one.append(...children);
  return one;
};

// Announces a text to screen readers.
const say = (text) => {
  byId("said").textContent = text;
};

// Sends a change to the server as JSON. A page of another site cannot send JSON to this server.
const send = async (method, path, body) => {
  const answer = await fetch(path, {
    method,
    headers: { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const json = await answer.json();
  if (!answer.ok) throw new Error(`${json.error}; ${json.help}`);
  return json;
};
