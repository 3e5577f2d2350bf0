// Chart of the changes between two runs: one row per figure, with the change in percent and its interval.

// Number of rows shown at first. A switch shows all rows.
const AT_ONCE = 20;
// The axis extends to this many times the distance that the median row needs. Otherwise one wide interval would leave
// no room for the other rows.
const FAR = 3;
// The axis covers at least this change in both directions, so that tiny changes do not look large.
const LEAST = 0.01;
// Height to keep free for a tooltip, in pixels.
const TIP = 170;
const VERDICTS = {
  better: { mark: "circle", sign: "●", colour: "good" },
  worse: { mark: "diamond", sign: "◆", colour: "bad" },
  "not distinguishable": { mark: "circle", sign: "○", colour: "quiet" },
};

const ruler = document.createElement("canvas").getContext("2d");
const widthOf = (text, { fontSize, fontWeight = 400 }) => {
  ruler.font = `${fontWeight} ${fontSize}px ${FONT}`;
  return ruler.measureText(text).width;
};
// Wraps a text to lines of at most `room` pixels. Nothing is cut off, because names of gateways often differ only at
// their end. A word is broken only if it is longer than a line. A number and its unit stay together.
const folded = (text, room, style) => {
  const fits = (line) => widthOf(line.trimEnd(), style) <= room;
  const lines = [""];
  const add = (part) => {
    const last = lines.length - 1;
    if (lines[last] && !fits(lines[last] + part)) lines.push(part);
    else lines[last] += part;
  };
  for (const word of text.split(/(?<= )(?<!(?:^| )\S*\d )/)) {
    for (const part of fits(word) ? [word] : word.split(/(?<=[.\-_+ ])/)) {
      if (fits(part)) add(part);
      else for (const letter of part) add(letter);
    }
  }
  return lines.map((line) => line.trimEnd());
};

// Splits `+12 % (10 to +14)` into two lines: the figure and its interval.
const parted = (text) => {
  const at = text.indexOf(" (");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 2, -1)];
};
const withUnit = (row, text) => (row.unit === "requests/s" ? text.replace(/( \(|$)/, " requests/s$1") : text);

// The lines of text that describe a row in its tooltip and to screen readers.
const changeInWords = (row) => [
  `${row.gateway}, ${row.load}`,
  row.metric,
  `before ${withUnit(row, row.before)}`,
  `after ${withUnit(row, row.after)}`,
  `change ${row.relative ? row.change : withUnit(row, row.change)}`,
  row.verdict + (row.stands ? ", part of the verdict" : ""),
  ...(row.relative ? [] : ["no percentage"]),
];

const endsOf = ({ relative }) =>
  relative ? [relative.estimate, relative.low, relative.high].filter((end) => end !== null) : [];

const isCalled = (row) => row.verdict !== "not distinguishable";

// Returns the smallest and the largest value on the axis.
const reachOf = (rows) => {
  const drawn = rows.filter((row) => row.relative);
  const farthest = (row) => Math.max(...endsOf(row).map(Math.abs));
  const sizes = drawn.map(farthest).sort((a, b) => a - b);
  const usual = sizes[Math.floor((sizes.length - 1) / 2)] || 0;
  // If a row decides the verdict, its whole interval must fit on the axis. For every other distinguishable row, twice
  // the estimate must fit, because an interval without zero seldom extends further.
  const needed = (row) => (row.stands ? farthest(row) : isCalled(row) ? 2 * Math.abs(row.relative.estimate) : 0);
  const limit = drawn.reduce((most, row) => Math.max(most, needed(row)), FAR * usual);
  const ends = drawn.flatMap(endsOf);
  const least = ends.reduce((one, other) => Math.min(one, other), -LEAST);
  const most = ends.reduce((one, other) => Math.max(one, other), LEAST);
  const [from, to] = [Math.max(least, -Math.max(limit, LEAST)), Math.min(most, Math.max(limit, LEAST))];
  const room = (to - from) * 0.04;
  return [from - room, to + room];
};

// Computes where each row is drawn, in pixels from the top of the chart. On a narrow screen a row's words are above its
// line. On a wide screen they are beside the line.
const LINE = 17;
const placed = (rows, theme, width) => {
  const narrow = width < 560;
  const small = textStyle(theme.quiet, 12);
  const most = (sizes) => Math.ceil(sizes.reduce((one, other) => Math.max(one, other), 0));
  const words = rows.map((row) => {
    const style = { ...textStyle(theme.ink, 14), fontWeight: row.stands ? 700 : 400 };
    const value = parted(row.change).map((text, at) => ({ text, style: at ? small : style }));
    const name = [
      { text: `${row.gateway} ${row.metric}`, style },
      { text: row.load, style: small },
    ];
    const room = (lines) => most(lines.map((one) => widthOf(one.text, one.style)));
    return { value, name, left: room(name), right: room(value) };
  });
  const left = Math.min(most(words.map((one) => one.left)), Math.floor(width * 0.4));
  const right = most(words.map((one) => one.right));
  let top = 26;
  const all = rows.map((row, at) => {
    const { value, name, right: own } = words[at];
    const room = narrow ? width - own - 16 : left;
    const lines = name.flatMap(({ text, style }) => folded(text, room, style).map((line) => ({ text: line, style })));
    const high = LINE * Math.max(lines.length, value.length);
    const height = high + (narrow ? 36 : 14);
    const place = { row, top, height, lines, value, y: narrow ? top + high + 20 : top + height / 2 };
    // Top and bottom of the row's part of the vertical line at zero.
    place.zero = narrow ? [place.y - 9, place.y + 9] : [top, top + height];
    top += height;
    return place;
  });
  return { all, height: top + 4, margins: narrow ? [10, 10] : [left + 20, right + 20] };
};

// Draws one row: words, a mark, and a line for the interval. Parts beyond the ends of the axis are drawn as arrows.
const drawnRow = ({ row, top, height, y, zero, lines, value }, { at, box, width, theme }) => {
  const { mark: shape, sign, colour: name } = VERDICTS[row.verdict];
  const [colour, isSure] = [theme[name], isCalled(row)];
  const [from, to] = [box.x, box.x + box.width];
  const text = (content, x, from, { color, fontSize, fontWeight = 400 }, align = "left") => ({
    type: "text",
    silent: true,
    style: { text: content, x, y: from, align, fill: color, font: `${fontWeight} ${fontSize}px ${FONT}` },
  });
  const line = (x1, y1, x2, y2, stroke, lineWidth) => ({
    type: "line",
    silent: true,
    shape: { x1, y1, x2, y2 },
    style: { stroke, lineWidth, fill: "none" },
  });
  const words = (all, x, align) =>
    all.map((one, number) => text(one.text, x, top + 7 + number * LINE, one.style, align));
  const children = [
    // This rectangle receives pointer events everywhere in the row.
    {
      type: "rect",
      shape: { x: 0, y: top, width, height },
      style: { fill: "transparent" },
      emphasis: { style: { fill: theme.band } },
    },
    line(0, top, width, top, theme.rule, 1),
    line(at(0), zero[0], at(0), zero[1], theme.quiet, 1),
    ...words(lines, 0),
    ...words(value, width, "right"),
  ];
  if (!row.relative) {
    const label = `${isSure ? `${sign} ${row.verdict}; ` : ""}no percentage`;
    const style = textStyle(colour, 12);
    return [...children, text(label, Math.min(at(0) + 8, to - widthOf(label, style)), y - 6, style)];
  }
  const { estimate, low, high } = row.relative;
  const within = (x) => Math.min(to, Math.max(from, x));
  const arrow = (x) => {
    const way = x < from ? -1 : 1;
    const tip = within(x);
    const points = [
      [tip, y],
      [tip - way * 8, y - 5],
      [tip - way * 8, y + 5],
    ];
    return { type: "polygon", silent: true, shape: { points }, style: { fill: colour } };
  };
  const end = (x) => (x === within(x) ? line(x, y - 5, x, y + 5, colour, 2) : arrow(x));
  if (low !== null && high !== null) {
    const [begin, stop] = [at(low), at(high)];
    children.push(line(within(begin), y, within(stop), y, colour, 2), end(begin), end(stop));
  }
  const place = at(estimate);
  const dot = place === within(place) ? mark(shape, place, y, colour, isSure, theme.card) : arrow(place);
  return [...children, { ...dot, silent: true }];
};

const changes = () => {
  const figure = byId("changes");
  const every = jsonIn("changes-data");
  // Rows that decide the verdict come first, then the other distinguishable rows.
  const rank = (row) => (row.stands ? 0 : isCalled(row) ? 1 : 2);
  const sorted = [...every].sort((one, other) => rank(one) - rank(other));
  const telling = sorted.filter((row) => row.told);
  const few = (telling.some((row) => row.relative) ? telling : sorted).slice(0, AT_ONCE);
  const all = byId("all-changes");
  const note = figure.querySelector(".note");
  let rows = few;
  let places = [];

  const option = (theme, width) => {
    const narrow = width < 560;
    const { all: found, height, margins } = placed(rows, theme, width);
    places = found;
    const [min, max] = reachOf(rows);
    figure.dataset.rows = rows.length;
    return {
      height,
      grid: { left: margins[0], right: margins[1], top: 26, bottom: 4, containLabel: false },
      tooltip: tooltip(theme, {
        trigger: "item",
        formatter: ({ dataIndex }) => {
          const [of, ...rest] = changeInWords(rows[dataIndex]).map(escaped);
          return [of, `<b>${rest[0]}</b>`, ...rest.slice(1)].join("<br>");
        },
      }),
      xAxis: valueAxis(theme, kinds.share, {
        min,
        max,
        position: "top",
        splitNumber: narrow ? 4 : 8,
        // Draw no grid lines on a narrow screen, because they would cross the words.
        splitLine: { show: !narrow, lineStyle: { color: theme.rule }, showMinLine: false, showMaxLine: false },
        axisLabel: {
          ...textStyle(theme.quiet, 12),
          hideOverlap: true,
          showMinLabel: false,
          showMaxLabel: false,
          formatter: (value) => signed(value, kinds.share),
        },
      }),
      yAxis: { type: "value", min: 0, max: 1, show: false },
      series: [
        {
          type: "custom",
          name: "change",
          clip: false,
          data: rows.map((row) => [row.relative ? row.relative.estimate : 0, 0]),
          renderItem: ({ dataIndex, coordSys: box }, api) => ({
            type: "group",
            children: drawnRow(places[dataIndex], { at: (share) => api.coord([share, 0])[0], box, width, theme }),
          }),
        },
      ],
    };
  };
  const { chart, draw, canvas } = chartIn(figure, option);

  // Keyboard: arrows move between rows.
  const live = figure.querySelector("[aria-live]");
  let at = -1;
  const leave = () => {
    chart.dispatchAction({ type: "hideTip" });
    chart.dispatchAction({ type: "downplay", seriesIndex: 0 });
  };
  // A chart may be higher than the screen. Scroll until the row and the tooltip below it are visible.
  const follow = ({ top, height }) => {
    const begin = canvas.getBoundingClientRect().top + top;
    const [least, most] = [document.querySelector("header.site").offsetHeight + 8, innerHeight - TIP];
    const by = begin < least ? begin - least : Math.max(0, begin + height - most);
    if (by) scrollBy({ top: by, behavior: "instant" });
  };
  canvas.addEventListener("keydown", (event) => {
    const [next, last] = [at + 1, at - 1];
    const moves = { ArrowDown: next, ArrowRight: next, ArrowUp: last, ArrowLeft: last, Home: 0, End: rows.length };
    if (event.key === "Escape") return leave();
    if (!(event.key in moves)) return undefined;
    event.preventDefault();
    leave();
    at = Math.min(rows.length - 1, Math.max(0, moves[event.key]));
    follow(places[at]);
    chart.dispatchAction({ type: "highlight", seriesIndex: 0, dataIndex: at });
    chart.dispatchAction({ type: "showTip", seriesIndex: 0, dataIndex: at });
    live.textContent = changeInWords(rows[at]).join(", ");
    return undefined;
  });
  canvas.addEventListener("blur", leave);

  const show = () => {
    rows = all.checked ? sorted : few;
    at = -1;
    const first = rows.some((row) => row.stands) ? "; those that the verdict rests on come first" : "";
    note.textContent = `From before to after, ${rows.length} of ${every.length} figures${first}`;
    canvas.setAttribute(
      "aria-label",
      `Changes of ${rows.length} figures in percent. Use the arrow keys to move between rows; the table below has the same data.`,
    );
    draw();
  };
  all.closest("label").hidden = few.length === sorted.length;
  all.addEventListener("change", show);
  show();
};
if (byId("changes-data")) changes();
