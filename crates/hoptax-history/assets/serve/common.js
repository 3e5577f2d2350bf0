// What all pages of the server share.

document.documentElement.classList.add("js");

const byId = (id) => document.getElementById(id);
const told = (id) => JSON.parse(byId(id).textContent);

const element = (tag, attributes, ...children) => {
  const one = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) one.setAttribute(name, value);
  one.append(...children);
  return one;
};

// Says something to who does not see the page change.
const say = (text) => {
  byId("said").textContent = text;
};

// Changes go as JSON, which no page of another site can send here.
const send = async (method, path, body) => {
  const answer = await fetch(path, {
    method,
    headers: { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const told = await answer.json();
  if (!answer.ok) throw new Error(`${told.error}; ${told.help}`);
  return told;
};
