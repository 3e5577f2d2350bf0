// Flame graphs: the width of a frame is its time per request, and a frame is below its caller. In a difference, the width
// is the longer time of the two, and the colour is the change.

const flameStates = {};
// The zoomed frame and the text to search for, of each graph.
const flameState = (index) => (flameStates[index] ??= { zoom: 0, search: "" });
const changeFlame = (index, changes) => {
  Object.assign(flameState(index), changes);
  redraw();
};

// Places all frames once: { depth, from, width, children }. Children are in the order of their names, so that the same
// frames of two graphs are in the same order.
const flamePlaces = {};
const placesOf = (index) => {
  if (flamePlaces[index]) return flamePlaces[index];
  const nodes = page.flames[index].nodes;
  const places = nodes.map(() => ({ depth: 0, from: 0, width: 0, children: [] }));
  nodes.forEach((node, at) => {
    if (at) places[node.parent].children.push(at);
  });
  // Parents come first, so the widths are added up from the end.
  for (let at = nodes.length - 1; at >= 0; at -= 1) {
    const { children } = places[at];
    const inside = children.reduce((sum, child) => sum + places[child].width, 0);
    places[at].width = Math.max(nodes[at].us, inside);
    children.sort((a, b) => (nodes[a].name < nodes[b].name ? -1 : 1));
  }
  places.forEach((place) => {
    let from = place.from;
    place.children.forEach((child) => {
      Object.assign(places[child], { depth: place.depth + 1, from });
      from += places[child].width;
    });
  });
  flamePlaces[index] = places;
  return places;
};

const isCertain = (node) => node.low !== null && node.high !== null && (node.low > 0 || node.high < 0);

const hueOf = (text) => [...text].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 360, 7);
const flameColour = (node, graph, most) => {
  if (graph.difference) {
    if (!isCertain(node)) return "#c9cbcf";
    const strength = 0.35 + 0.65 * Math.min(1, Math.abs(node.change) / most);
    return node.change > 0 ? `hsl(8, 80%, ${92 - 30 * strength}%)` : `hsl(212, 75%, ${92 - 30 * strength}%)`;
  }
  if (node.kind === "thread") return "#d5d7da";
  if (node.kind === "kernel") return "#f3b98a";
  if (node.kind === "generated") return "#b7dba0";
  // Programs and libraries have hues from yellow to blue, away from the kernel's orange.
  return `hsl(${40 + (hueOf(node.module) % 22) * 9}, 62%, 78%)`;
};

const flameWords = (node, graph) => {
  const words = [`<b>${escaped(node.name)}</b>`, node.module && escaped(node.module)];
  if (graph.difference) {
    const one = { estimate: node.change, low: node.low, high: node.high };
    words.push(`${withInterval(one, kinds.time, true)} per request${isCertain(node) ? "" : ", not distinguishable"}`);
  } else {
    words.push(`${withInterval({ estimate: node.us, low: node.low, high: node.high }, kinds.time)} per request`);
    words.push(`${percent(node.us / graph.nodes[0].us)} of all`);
  }
  return words.filter(Boolean).join("<br>");
};

// What fits on a frame: of a function of Java the class and the method, without types.
const flameLabel = (name) => {
  const before = name.split("(")[0].trimEnd();
  if (before === name || before.includes("::") || !before.includes(" ")) return name;
  return before.split(" ").pop().split(".").slice(-2).join(".");
};

// The frames that contain the searched text.
const matchesOf = (graph, search) => {
  const wanted = search.trim().toLowerCase();
  if (!wanted) return graph.nodes.map(() => false);
  return graph.nodes.map((node) => `${node.name} ${node.module ?? ""}`.toLowerCase().includes(wanted));
};

// Time of all frames that match, without those below another frame that matches.
const matchedTime = (graph, matches) => {
  const inside = graph.nodes.map(() => false);
  return graph.nodes.reduce((sum, node, at) => {
    const below = at > 0 && (inside[node.parent] || matches[node.parent]);
    inside[at] = below;
    const us = graph.difference ? node.change : node.us;
    return matches[at] && !below ? sum + us : sum;
  }, 0);
};

const FLAME_ROW = 20;

const flameChart = (index) => (theme, width) => {
  const graph = page.flames?.[index];
  if (!graph || graph.nodes.length < 2) return null;
  const places = placesOf(index);
  const { zoom, search } = flameState(index);
  const matches = matchesOf(graph, search);
  const [left, right] = [places[zoom].from, places[zoom].from + places[zoom].width];
  const isVisible = (place) =>
    place.from < right && place.from + place.width > left && (place.width / (right - left)) * width >= 0.7;
  const shown = places.map((_, at) => at).filter((at) => isVisible(places[at]));
  const depth = Math.max(...shown.map((at) => places[at].depth)) + 1;
  const most = Math.max(...graph.nodes.map((node) => (isCertain(node) ? Math.abs(node.change ?? 0) : 0)), 1e-9);
  const draw = (params, api) => {
    const at = api.value(3);
    const [x, y] = api.coord([Math.max(left, api.value(1)), api.value(0)]);
    const [end, below] = api.coord([Math.min(right, api.value(2)), api.value(0) + 1]);
    const node = graph.nodes[at];
    const wide = Math.max(end - x - 0.5, 0.3);
    return {
      type: "rect",
      shape: { x, y, width: wide, height: below - y - 1, r: 2 },
      style: {
        fill: matches[at] ? "#c58af0" : flameColour(node, graph, most),
        opacity: search.trim() && !matches[at] ? 0.55 : 1,
      },
      textConfig: { position: "insideLeft", distance: 4 },
      textContent:
        wide < 24
          ? undefined
          : {
              type: "text",
              style: { ...textStyle(LIGHT.ink, 11), text: flameLabel(node.name), fill: LIGHT.ink, width: wide - 8, overflow: "truncate" },
            },
    };
  };
  const what = graph.difference ? "Width: the longer of both times." : "Width: time per request.";
  const found = search.trim() ? ` Found: ${time(matchedTime(graph, matches))} per request.` : "";
  const listed = [...shown].sort((a, b) => graph.nodes[b].us - graph.nodes[a].us).slice(0, 60);
  return {
    option: {
      grid: { left: 2, right: 2, top: 2, bottom: 2 },
      tooltip: tooltip(theme, {
        trigger: "item",
        formatter: ({ value }) => flameWords(graph.nodes[value[3]], graph),
        extraCssText: "max-width:34rem;white-space:normal;overflow-wrap:anywhere;border-radius:8px;",
      }),
      xAxis: { type: "value", show: false, min: left, max: right },
      yAxis: { type: "value", show: false, inverse: true, min: 0, max: depth },
      series: [
        {
          type: "custom",
          name: graph.title,
          renderItem: draw,
          clip: true,
          encode: { x: [1, 2], y: 0 },
          data: shown.map((at) => {
            const place = places[at];
            return [place.depth, place.from, place.from + place.width, at];
          }),
        },
      ],
    },
    height: FLAME_ROW * depth + 4,
    note: `${what} Press a frame to enlarge it, and the first row to see all.${found}`,
    table: {
      head: ["function", "module", graph.difference ? "change per request" : "time per request", "95 % interval"],
      rows: listed.map((at) => {
        const node = graph.nodes[at];
        const one = { estimate: graph.difference ? node.change : node.us, low: node.low, high: node.high };
        return [node.name, node.module ?? "", ...figureCells(one, kinds.time, graph.difference)];
      }),
    },
    series: 1,
    click: ({ value }) => changeFlame(index, { zoom: value[3] }),
  };
};

const LIBRARIES_NAMED = 6;

// What the colours of a flame graph mean: kinds of frames, then the programs and libraries with most time of their own.
const flameKey = (graph) => {
  const entry = (colour, text) =>
    element("span", {}, element("span", { class: "swatch", style: `background:${colour}` }), text);
  if (graph.difference) {
    return [entry("hsl(8, 80%, 66%)", "more time"), entry("hsl(212, 75%, 66%)", "less time"), entry("#c9cbcf", "not distinguishable")];
  }
  const kinds = [
    ["thread", "threads"],
    ["kernel", "kernel"],
    ["generated", "generated code"],
  ].filter(([kind]) => graph.nodes.some((node) => node.kind === kind));
  const below = graph.nodes.map(() => 0);
  graph.nodes.forEach((node, at) => {
    if (at) below[node.parent] += node.us;
  });
  const own = new Map();
  graph.nodes.forEach((node, at) => {
    if (!node.module || ["thread", "kernel", "generated"].includes(node.kind)) return;
    own.set(node.module, (own.get(node.module) ?? 0) + Math.max(0, node.us - below[at]));
  });
  const modules = [...own].sort((a, b) => b[1] - a[1]).map(([module]) => module);
  const more = modules.length - LIBRARIES_NAMED;
  return [
    ...kinds.map(([kind, text]) => entry(flameColour({ kind }, graph, 1), text)),
    ...modules.slice(0, LIBRARIES_NAMED).map((module) => entry(flameColour({ module }, graph, 1), module.split("/").pop())),
    ...(more > 0 ? [element("span", {}, `${more} more`)] : []),
  ];
};

// The field that searches a flame graph, and what its colours mean.
const flameControls = (index) => {
  const field = element("input", {
    type: "search",
    placeholder: "Search functions",
    "aria-label": "Search functions",
    oninput: (event) => changeFlame(index, { search: event.target.value }),
  });
  const all = element("button", { type: "button", onclick: () => changeFlame(index, { zoom: 0 }) }, "Show all");
  const graph = page.flames?.[index];
  const key = graph ? element("p", { class: "flame-key quiet", role: "note" }, ...flameKey(graph)) : "";
  return element("div", {}, element("div", { class: "pair" }, field, " ", all), key);
};
