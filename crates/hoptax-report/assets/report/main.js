// Adds charts and controls to the page. The page is complete even without scripts.

const chartsOf = {
  tax: taxChart,
  message: messageChart,
  curve: curveChart,
  time: overTimeChart,
  cpu: cpuChart,
  memory: memoryChart,
  path: pathChart,
  starts: startsChart,
};

// A row of buttons. Exactly one button is always pressed.
const choices = (label, options, get, set) => {
  const buttons = Object.entries(options).map(([value, name]) =>
    element("button", { type: "button", onclick: () => set(value) }, name),
  );
  const show = () =>
    Object.keys(options).forEach((value, place) =>
      buttons[place].setAttribute("aria-pressed", String(value === get())),
    );
  onChange(show);
  show();
  return element("div", { class: "choices", role: "group", "aria-label": label }, ...buttons);
};

const names = (metrics) => Object.fromEntries(Object.entries(metrics).map(([key, one]) => [key, one.name]));

const addControls = (host) => {
  const kind = host.dataset.chart;
  const before = (control) => host.querySelector("figcaption").after(control);
  if (kind === "tax" || kind === "version")
    before(
      choices(
        "What is compared",
        names(TAXES),
        () => state.percentile,
        (percentile) => change({ percentile }),
      ),
    );
  if (kind === "price")
    before(
      choices(
        "What a feature costs",
        names(PRICES),
        () => state.price,
        (price) => change({ price }),
      ),
    );
  if (kind === "flame") before(flameControls(Number(host.dataset.flame)));
  if (kind === "time")
    before(
      choices(
        "Response time at",
        { p50_us: "p50", p99_us: "p99" },
        () => state.over,
        (over) => change({ over }),
      ),
    );
  if (kind === "curve" && gateways.length > 2) {
    const options = () => gateways.map((one, who) => element("option", { value: who }, one.label));
    const set = (place, value) => change({ pair: state.pair.map((one, at) => (at === place ? value : one)) });
    const first = element(
      "select",
      { "aria-label": "Gateways compared", onchange: (event) => set(0, event.target.value) },
      element("option", { value: "" }, "all gateways"),
      ...options(),
    );
    const second = element(
      "select",
      { "aria-label": "Compared with", onchange: (event) => set(1, event.target.value) },
      ...options(),
    );
    const rest = element("span", {}, " with ", second);
    const show = () => {
      rest.hidden = state.pair[0] === "";
    };
    second.value = state.pair[1];
    onChange(show);
    show();
    before(element("div", { class: "pair" }, "Compare ", first, rest));
  }
};

// Adds a figure for each metric of each sweep, for the versions of each gateway, or for each group of prices.
const multiply = (host) => {
  const clone = (title, build) => {
    const figure = element(
      "figure",
      { class: "chart", "data-chart": host.dataset.each },
      element("figcaption", {}, element("strong", {}, title)),
    );
    host.append(figure);
    addControls(figure);
    addFigure(figure, build);
  };
  if (host.dataset.each === "sweep") {
    page.sweeps.forEach((sweep, index) => {
      host.append(element("h3", {}, `By ${sweep.axis === "rate" ? "rate" : `number of ${sweep.axis}`}: ${sweep.label}`));
      Object.entries(OVER_LOAD).forEach(([metric, one]) => clone(one.title, sweepChart(index, metric)));
    });
  } else if (host.dataset.each === "version") {
    page.versions.forEach((family, index) =>
      clone(`${family.name}, ${loadOf(family.load).label}`, versionChart(index)),
    );
  } else {
    priceGroups().forEach((group, index) => clone(`${group.bare}, ${loadOf(group.load).label}`, priceChart(index)));
  }
};

const sample = (who) => {
  const { colour, dash, mark: shape } = styleOf(who);
  const paths = {
    circle: "M13 6m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    rect: "M9 2h8v8h-8z",
    triangle: "M13 1l5 9h-10z",
    diamond: "M13 0l5 6l-5 6l-5-6z",
    roundRect: "M10 3h6a2 2 0 0 1 2 2v2a2 2 0 0 1-2 2h-6a2 2 0 0 1-2-2v-2a2 2 0 0 1 2-2z",
    pin: "M13 11l5-9h-10z",
    arrow: "M18 6l-9 5v-10z",
  };
  const svg = (tag, attributes) => {
    const one = document.createElementNS("http://www.w3.org/2000/svg", tag);
    Object.entries(attributes).forEach(([name, value]) => one.setAttribute(name, value));
    return one;
  };
  const picture = svg("svg", { width: 26, height: 12, viewBox: "0 0 26 12", "aria-hidden": "true" });
  picture.append(
    svg("path", {
      d: "M0 6h26",
      stroke: colour,
      "stroke-width": 2,
      "stroke-dasharray": dash === "solid" ? "" : dash.join(" "),
      fill: "none",
    }),
    svg("path", { d: paths[shape], fill: colour }),
  );
  return picture;
};

const fillBar = () => {
  const bar = document.getElementById("bar");
  if (page.loads.length > 1) {
    const select = element(
      "select",
      { id: "load", onchange: (event) => change({ load: Number(event.target.value) }) },
      ...page.loads.map((load) => element("option", { value: load.index }, load.label)),
    );
    select.value = state.load;
    bar.append(element("label", { class: "load" }, element("span", {}, "Load"), select));
  }
  const chips = gateways.map((one, who) => {
    const chip = element(
      "button",
      { type: "button", class: "chip", onclick: () => toggle(who), title: `Show or hide ${one.label} everywhere` },
      sample(who),
      one.label,
    );
    const show = () => chip.setAttribute("aria-pressed", String(isShown(who)));
    onChange(show);
    show();
    return chip;
  });
  const all = element(
    "button",
    { type: "button", class: "chip all", onclick: () => change({ hidden: new Set() }) },
    "Show all",
  );
  onChange(() => {
    all.hidden = !state.hidden.size;
  });
  all.hidden = true;
  bar.append(element("div", { class: "chips", role: "group", "aria-label": "Gateways shown" }, ...chips, all));
};

// Shows only the selected load point, and only the rows of the selected gateways.
const showTables = () => {
  document.querySelectorAll("[data-load]").forEach((part) => {
    part.hidden = Number(part.dataset.load) !== state.load;
  });
  document.querySelectorAll("tr[data-gateway], li[data-gateway]").forEach((row) => {
    const who = gateways.findIndex((one) => one.label === row.dataset.gateway);
    row.hidden = who >= 0 && !isShown(who);
  });
};

const themeButton = () => {
  const root = document.documentElement;
  const names = { auto: ["◐", "Automatic"], light: ["○", "Light"], dark: ["●", "Dark"] };
  const stored = () => {
    try {
      return localStorage.getItem("hoptax-theme");
    } catch {
      return null;
    }
  };
  const set = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.replaceChildren(names[theme][0], element("span", {}, ` ${names[theme][1]}`));
    button.setAttribute("aria-label", `Colours: ${names[theme][1]}. Press to change`);
    try {
      localStorage.setItem("hoptax-theme", theme);
    } catch {
      /* The page may not use local storage. */
    }
    redraw();
  };
  const button = element("button", {
    type: "button",
    class: "theme",
    onclick: () => {
      const order = Object.keys(names);
      set(order[(order.indexOf(root.dataset.theme || "auto") + 1) % order.length]);
    },
  });
  document.getElementById("top").append(button);
  set(names[stored()] ? stored() : "auto");
};

fillBar();
document.querySelectorAll("figure[data-chart]").forEach((host) => {
  addControls(host);
  const { chart, search, flame } = host.dataset;
  const numbered = { frontier: () => frontierChart(Number(search)), flame: () => flameChart(Number(flame)) };
  addFigure(host, numbered[chart]?.() ?? chartsOf[chart]);
});
document.querySelectorAll("[data-each]").forEach(multiply);
document
  .querySelectorAll("table")
  .forEach((table) => addTableTools(table, table.closest("section")?.querySelector("h2, h3")?.textContent || "table"));
themeButton();
onChange(showTables);
onChange(redraw);
showTables();

// Observes the page instead of the window, because a scrollbar or a font can also change the page's width.
let width = 0;
new ResizeObserver(([entry]) => {
  const known = width;
  width = entry.contentRect.width;
  if (known && known !== width) redraw();
}).observe(document.querySelector("main"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
// Before printing, draw every chart in light colours.
let before = null;
let folded = [];
addEventListener("beforeprint", () => {
  // Unfold everything except complete configurations and the tables of charts.
  folded = [...document.querySelectorAll("details:not([open]):not(.figures):not(.file)")];
  folded.forEach((one) => {
    one.open = true;
  });
  before = document.documentElement.dataset.theme || "auto";
  document.documentElement.dataset.theme = "light";
  drawAll();
});
addEventListener("afterprint", () => {
  folded.forEach((one) => {
    one.open = false;
  });
  if (before === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = before;
  redraw();
});
document.documentElement.dataset.ready = figures.length;
