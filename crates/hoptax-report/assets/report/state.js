// The state of the whole page. When it changes, charts, tables and chips are updated.

const page = JSON.parse(document.getElementById("hoptax-data").textContent);
const gateways = page.contenders;

const state = {
  load: page.first_load,
  hidden: new Set(),
  percentile: page.measures[0].metric,
  price: "added_p50",
  over: "p99_us",
  pair: [
    "",
    Math.max(
      0,
      page.contenders.findIndex((one) => one.direct),
    ),
  ],
};

const listeners = [];
const onChange = (listener) => listeners.push(listener);
const change = (changes) => {
  Object.assign(state, changes);
  listeners.forEach((listener) => listener());
};

const isShown = (gateway) => !state.hidden.has(gateway);
const toggle = (gateway) => {
  const hidden = new Set(state.hidden);
  if (!hidden.delete(gateway)) hidden.add(gateway);
  change({ hidden });
};

const loadOf = (index) => page.loads.find((load) => load.index === index);
const casesAt = (index) => page.cases.filter((one) => one.load === index);
const shownAt = (index) => casesAt(index).filter((one) => isShown(one.gateway));
const caseOf = (gateway, index) => page.cases.find((one) => one.gateway === gateway && one.load === index);

// Each contender has its own colour, line style and mark, so that any of the three is enough to recognise it. Direct is
// grey, with short dashes and circles.
const DASHES = ["solid", [7, 4], [2, 3], [10, 3, 2, 3], [4, 2], [12, 4], [1, 2]];
const MARKS = ["circle", "rect", "triangle", "diamond", "roundRect", "pin", "arrow"];
const styleOf = (index) => {
  const one = gateways[index];
  const place = gateways.slice(0, index).filter((other) => !other.direct).length;
  return {
    colour: one.colour,
    dash: one.direct ? [3, 3] : DASHES[place % DASHES.length],
    mark: one.direct ? "circle" : MARKS[(place + Math.floor(place / MARKS.length)) % MARKS.length],
  };
};

const LIGHT = { ink: "#1d1f23", quiet: "#5b6068", rule: "#e3e3de", card: "#ffffff", band: "rgba(90,96,104,.14)" };

const element = (tag, attributes, ...children) => {
  const one = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) one.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      one.setAttribute(name, value === true ? "" : value);
  }
  one.append(...children.filter((child) => child !== null && child !== undefined));
  return one;
};
