// A figure has a chart with controls and keyboard navigation, a table with the chart's values, and downloads.

const figures = [];

// If there is nothing to draw, the figure hides itself.
class Figure {
  constructor(host, build) {
    Object.assign(this, { host, build, chart: null, at: -1 });
    this.title = host.querySelector("figcaption strong").textContent;
    this.note =
      host.querySelector("figcaption .note") ||
      host.querySelector("figcaption").appendChild(element("span", { class: "note" }));
    this.canvas = element("div", {
      class: "canvas",
      tabindex: "0",
      role: "group",
      "aria-roledescription": "chart",
      onkeydown: (event) => this.key(event),
      onblur: () => this.leave(),
    });
    this.live = element("p", { class: "unseen", "aria-live": "polite" });
    this.tools = element(
      "div",
      { class: "tools" },
      element("button", { type: "button", onclick: () => this.save("svg") }, "SVG"),
      element("button", { type: "button", onclick: () => this.save("png") }, "PNG"),
    );
    this.figures = element(
      "details",
      { class: "figures", ontoggle: () => this.fill() },
      element("summary", {}, "Figures"),
      element("div", {}),
    );
    host.append(this.canvas, this.live, element("div", { class: "foot" }, this.figures, this.tools));
  }

  draw() {
    const theme = colours();
    this.host.hidden = false;
    const width = this.canvas.clientWidth || this.host.clientWidth || 600;
    const made = this.build(theme, width);
    this.host.hidden = !made;
    this.host.dataset.series = made ? made.series : 0;
    if (!made) return;
    this.made = made;
    if (made.note) this.note.textContent = made.note;
    this.canvas.style.height = `${made.height}px`;
    this.canvas.setAttribute(
      "aria-label",
      `${this.title}. ${this.note.textContent} Use the arrow keys to move between values; a table is below.`,
    );
    if (this.chart) this.chart.resize();
    else this.chart = echarts.init(this.canvas, null, { renderer: "svg" });
    this.chart.setOption({ animation: false, ...made.option }, true);
    this.chart.off("click");
    if (made.click) this.chart.on("click", made.click);
    this.host.dataset.drawn = this.chart.getOption().series.length;
    this.at = -1;
    if (this.figures.open) this.fill();
  }

  fill() {
    const [, body] = this.figures.children;
    if (!this.figures.open || !this.made) return body.replaceChildren();
    const { head, rows } = this.made.table;
    const cells = (tag, row) =>
      row.map((cell, place) =>
        element(place ? tag : "th", place ? {} : { scope: tag === "th" ? "col" : "row" }, String(cell)),
      );
    const table = element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...cells("th", head))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells("td", row)))),
    );
    const scroll = element(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": `${this.title}: figures` },
      table,
    );
    body.replaceChildren(scroll);
    addTableTools(table, this.title);
  }

  // The values that the keyboard can reach, in drawing order. If one tooltip covers all lines, these are only the
  // values of the longest line.
  places() {
    const option = this.chart.getOption();
    const values = (series, seriesIndex) =>
      series.silent
        ? []
        : series.data
            .map((value, dataIndex) => ({ seriesIndex, dataIndex, value }))
            .filter(({ value }) => !(Array.isArray(value) && value[1] === null));
    const all = option.series.map(values);
    if (option.tooltip[0].trigger !== "axis") return all.flat();
    return all.reduce((longest, one) => (one.length > longest.length ? one : longest), []);
  }

  key(event) {
    const places = this.chart ? this.places() : [];
    const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (event.key === "Escape") return this.leave();
    if (event.key === "Home") this.at = 0;
    else if (event.key === "End") this.at = places.length - 1;
    else if (event.key in moves) this.at = (this.at + moves[event.key] + places.length) % places.length;
    else return;
    event.preventDefault();
    const { seriesIndex, dataIndex } = places[this.at];
    this.chart.dispatchAction({ type: "showTip", seriesIndex, dataIndex });
    // Screen readers announce the same words that the tooltip shows.
    setTimeout(() => {
      this.live.textContent = this.tip();
    }, 60);
  }

  tip() {
    const tip = this.canvas.querySelector(".tip");
    return tip ? tip.innerText : "";
  }

  leave() {
    this.at = -1;
    if (this.chart) this.chart.dispatchAction({ type: "hideTip" });
  }

  // Draws the chart for a separate file, with light colours, a title and a legend. The page around the chart is missing
  // in the file.
  alone() {
    const width = 960;
    const made = this.build(LIGHT, width);
    const names = [
      ...new Set(
        made.option.series
          .filter((series) => series.type === "line" || series.type === "scatter")
          .map((series) => series.name),
      ),
    ];
    const above = 64 + (names.length ? 28 : 0);
    const moved = (box) => ({ ...box, ...(typeof box.top === "number" ? { top: box.top + above } : {}) });
    const each = (boxes) => (Array.isArray(boxes) ? boxes.map(moved) : moved(boxes));
    const frame = echarts.init(null, null, { renderer: "svg", ssr: true, width, height: made.height + above + 16 });
    frame.setOption({
      ...made.option,
      animation: false,
      backgroundColor: LIGHT.card,
      dataZoom: [],
      grid: each(
        Array.isArray(made.option.grid) ? made.option.grid : { ...made.option.grid, left: 24, right: 32, bottom: 20 },
      ),
      title: [
        {
          text: this.title,
          subtext: this.note.textContent,
          left: 20,
          top: 12,
          textStyle: { ...textStyle(LIGHT.ink, 18), fontWeight: 600 },
          subtextStyle: textStyle(LIGHT.quiet, 12),
        },
        ...(made.option.title || []).map((title) => ({ ...moved(title), left: 20 })),
      ],
      legend: names.length ? { data: names, left: 16, top: 60, textStyle: textStyle(LIGHT.ink, 12) } : undefined,
    });
    const svg = frame.renderToSVGString();
    frame.dispose();
    return { svg, width, height: made.height + above + 16 };
  }

  save(format) {
    const { svg, width, height } = this.alone();
    const name = fileName(this.title);
    if (format === "svg") return download(new Blob([svg], { type: "image/svg+xml" }), `${name}.svg`);
    const image = new Image();
    image.onload = () => {
      const canvas = element("canvas", { width: 2 * width, height: 2 * height });
      canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
      canvas.toBlob((blob) => download(blob, `${name}.png`), "image/png");
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  }
}

const fileName = (title) =>
  `${page.name}-${title}`
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");

const download = (blob, name) => {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

// A chart is drawn when the reader scrolls near it, so that a page with many charts opens fast.
const start = (figure) => {
  figure.started = true;
  figure.draw();
};
const seen = new IntersectionObserver(
  (entries) =>
    entries
      .filter((entry) => entry.isIntersecting)
      .forEach((entry) => {
        seen.unobserve(entry.target);
        start(figures.find((figure) => figure.host === entry.target));
      }),
  { rootMargin: "600px" },
);

const addFigure = (host, build) => {
  const figure = new Figure(host, build);
  figures.push(figure);
  // Charts on the first screen are drawn at once. The other charts are drawn when the reader scrolls to them.
  if (host.getBoundingClientRect().top < innerHeight) start(figure);
  else seen.observe(host);
};
const redraw = () => figures.filter((figure) => figure.started).forEach((figure) => figure.draw());
const drawAll = () => figures.forEach(start);
