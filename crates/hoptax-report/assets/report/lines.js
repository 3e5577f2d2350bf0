// Charts with one line for each gateway.

const lineSeries = (who, data, more) => {
  const style = styleOf(who);
  return {
    type: "line",
    name: gateways[who].label,
    data,
    color: style.colour,
    symbol: style.mark,
    symbolSize: 7,
    lineStyle: { width: 2, type: style.dash, color: style.colour },
    itemStyle: { color: style.colour },
    emphasis: { focus: "series", lineStyle: { width: 3 } },
    blur: { lineStyle: { opacity: 0.25 } },
    animation: false,
    ...more,
  };
};

// Vertical intervals at the points of a line: [x, estimate, low, high]. Intervals of different gateways are drawn side
// by side.
const intervals = (who, data, more) => ({
  type: "custom",
  name: gateways[who].label,
  color: styleOf(who).colour,
  data,
  encode: { x: 0, y: [2, 3] },
  silent: true,
  z: 1,
  clip: true,
  tooltip: { show: false },
  renderItem: (_, api) => {
    const [middle, low] = api.coord([api.value(0), api.value(2)]);
    const x = middle + 3 * (who - (gateways.length - 1) / 2);
    const high = api.coord([api.value(0), api.value(3)])[1];
    const style = { stroke: styleOf(who).colour, lineWidth: 1.5, opacity: 0.55 };
    const stroke = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
    return {
      type: "group",
      children: [stroke(x, low, x, high), stroke(x - 3, low, x + 3, low), stroke(x - 3, high, x + 3, high)],
    };
  },
  ...more,
});

const logAxis = (theme, format, more) => ({
  type: "log",
  axisLine: { show: false },
  axisTick: { show: false },
  minorSplitLine: { show: false },
  splitLine: { lineStyle: { color: theme.rule } },
  axisLabel: { ...textStyle(theme.quiet, 12), hideOverlap: true, formatter: format },
  ...more,
});

// The two ends of a logarithmic axis. They enclose all values. Each is 1, 2 or 5 times a power of ten.
const around = (values) => {
  const good = values.filter((value) => value > 0);
  const steps = (value, up) => {
    const power = 10 ** Math.floor(Math.log10(value));
    const factors = [1, 2, 5, 10];
    return (
      power *
      (up
        ? (factors.find((factor) => factor * power >= value * 0.999) ?? 10)
        : factors.filter((factor) => factor * power <= value * 1.001).pop())
    );
  };
  return good.length ? { min: steps(Math.min(...good), false), max: steps(Math.max(...good), true) } : {};
};

const rows = (points, kind) =>
  points
    .filter((point) => point.value !== null && point.value !== undefined)
    .map(
      (point) =>
        `<span style="color:${point.colour}">●</span> ${escaped(point.name)} <b>${kind.format(point.value)}</b>${point.range ? ` <small>${point.range}</small>` : ""}`,
    )
    .join("<br>");

const percentileName = (rarity) => {
  if (rarity <= 1) return "least";
  const share = 100 * (1 - 1 / rarity);
  return "p" + Number(share.toFixed(Math.max(0, Math.ceil(Math.log10(rarity)) - 1)));
};

const curveChart = (theme, width) => {
  const paired = state.pair[0] !== "" && state.pair.map(Number);
  const found = shownAt(state.load).filter((each) => each.curve.length && (!paired || paired.includes(each.gateway)));
  if (!found.length) return null;
  const figureOf = (each, name) => each.response_time[name];
  const series = found.flatMap((each) => {
    const whiskers = PERCENTILES.map((name) => [name, figureOf(each, name)])
      .filter(([, figure]) => figure && figure.low !== null)
      .map(([name, figure]) => [
        1 / (1 - Number(name.slice(1)) / 100),
        figure.estimate,
        Math.max(figure.low, 0.1),
        figure.high,
      ]);
    return [
      lineSeries(each.gateway, each.curve, { showSymbol: false, triggerLineEvent: true }),
      intervals(each.gateway, whiskers),
    ];
  });
  const most = Math.max(...found.map((each) => each.curve[each.curve.length - 1][0]));
  const nearest = (curve, rarity) =>
    curve.reduce((best, point) =>
      Math.abs(Math.log(point[0] / rarity)) < Math.abs(Math.log(best[0] / rarity)) ? point : best,
    );
  const scale = around(found.flatMap((each) => each.curve.map((point) => point[1])));
  return {
    option: {
      grid: { left: 4, right: 20, top: 14, bottom: 4, containLabel: true },
      tooltip: tooltip(theme, {
        trigger: "axis",
        axisPointer: { lineStyle: { color: theme.quiet, type: "dashed" } },
        formatter: (points) => {
          const rarity = points[0].axisValue;
          const each = found.map((one) => ({
            name: gateways[one.gateway].label,
            colour: styleOf(one.gateway).colour,
            value: nearest(one.curve, rarity)[1],
          }));
          return (
            `<b>${percentileName(rarity)}</b><br>` +
            rows(
              each.sort((a, b) => b.value - a.value),
              kinds.time,
            )
          );
        },
      }),
      xAxis: logAxis(theme, percentileName, {
        min: 1,
        max: most,
        splitLine: { show: false },
        axisLabel: {
          ...textStyle(theme.quiet, 12),
          formatter: percentileName,
          hideOverlap: true,
          customValues: [2, 10, 20, 100, 1e3, 1e4, 1e5, 1e6].filter((rarity) => rarity < most),
        },
      }),
      yAxis: logAxis(theme, (us) => time(us), scale),
      series,
    },
    height: 380,
    note: loadOf(state.load).label,
    table: {
      head: ["gateway", ...PERCENTILES, "largest"],
      rows: found.map((each) => [
        gateways[each.gateway].label,
        ...PERCENTILES.map((name) => (figureOf(each, name) ? withInterval(figureOf(each, name), kinds.time) : "–")),
        each.response_time.max ? time(each.response_time.max.estimate) : "–",
      ]),
    },
    series: found.length,
  };
};

// Response time over the time since a start. Both axes are logarithmic.
const startsChart = (theme, width) => {
  const found = page.starts.filter((one) => isShown(one.gateway) && one.curve.length);
  if (!found.length) return null;
  const seconds = (s) => time(s * 1e6);
  const series = found.map((one) => lineSeries(one.gateway, one.curve, { showSymbol: false, triggerLineEvent: true }));
  const all = found.flatMap((one) => one.curve);
  // The last point of each line that is not later: a line begins when its gateway is ready.
  const at = (one, s) => one.curve.filter((point) => point[0] <= s * 1.001).pop();
  const times = all.map((point) => point[0]);
  const named = [1e-3, 1e-2, 1e-1, 1, 10, 100].filter((s) => s >= Math.min(...times) && s <= Math.max(...times));
  return {
    option: {
      grid: { left: 4, right: 20, top: 14, bottom: 4, containLabel: true },
      tooltip: tooltip(theme, {
        trigger: "axis",
        axisPointer: { lineStyle: { color: theme.quiet, type: "dashed" } },
        formatter: (points) => {
          const s = Number(points[0].axisValue);
          const each = found
            .map((one) => ({
              name: gateways[one.gateway].label,
              colour: styleOf(one.gateway).colour,
              value: at(one, s)?.[1],
            }))
            .filter((one) => one.value !== undefined);
          return (
            `<b>${seconds(s)} after the start</b><br>` +
            rows(
              each.sort((a, b) => b.value - a.value),
              kinds.time,
            )
          );
        },
      }),
      xAxis: logAxis(theme, seconds, around(times)),
      yAxis: logAxis(theme, (us) => time(us), around(all.map((point) => point[1]))),
      series,
    },
    height: 380,
    note: "",
    table: {
      head: ["gateway", ...named.map((s) => `at ${seconds(s)}`)],
      rows: found.map((one) => [
        gateways[one.gateway].label,
        ...named.map((s) => (at(one, s) ? time(at(one, s)[1]) : "–")),
      ]),
    },
    series: found.length,
  };
};

// Metrics that are drawn against the number of connections or of streams, or the rate. Each metric has its own chart.
const OVER_LOAD = {
  p50: { title: "p50", kind: kinds.time, log: true, of: (one) => one.response_time && one.response_time.p50 },
  p90: { title: "p90", kind: kinds.time, log: true, of: (one) => one.response_time && one.response_time.p90 },
  p99: { title: "p99", kind: kinds.time, log: true, of: (one) => one.response_time && one.response_time.p99 },
  throughput: { title: "Throughput, requests/s", kind: kinds.rate, of: (one) => one.throughput },
  cpu: { title: "CPU per request", kind: kinds.time, of: (one) => one.tax && one.tax.cpu_us_per_request },
  memory: {
    title: "Resident memory",
    kind: kinds.bytes,
    of: (one) =>
      one.memory &&
      one.memory.gateway_rss_bytes_max && { estimate: one.memory.gateway_rss_bytes_max, low: null, high: null },
  },
};

const sweepChart = (index, metric) => (theme, width) => {
  const sweep = page.sweeps[index];
  const { kind, log, of } = OVER_LOAD[metric];
  const found = gateways
    .map((_, who) => ({
      who,
      points: sweep.loads
        .map((load, place) => [sweep.at[place], caseOf(who, load) && of(caseOf(who, load))])
        .filter(([, one]) => one),
    }))
    .filter(({ who, points }) => isShown(who) && points.length);
  if (!found.length) return null;
  const ranged = (points) =>
    points
      .filter(([, one]) => one.low !== null && one.high !== null)
      .map(([x, one]) => [x, one.estimate, log ? Math.max(one.low, 0.1) : one.low, one.high]);
  const series = found.flatMap(({ who, points }) => [
    lineSeries(
      who,
      points.map(([x, one]) => [x, one.estimate]),
    ),
    intervals(who, ranged(points)),
  ]);
  const all = found.flatMap(({ points }) => points.flatMap(([, one]) => [one.estimate, one.high ?? one.estimate]));
  const at = (x) =>
    found
      .map(({ who, points }) => {
        const point = points.find(([at]) => at === x);
        return (
          point && {
            name: gateways[who].label,
            colour: styleOf(who).colour,
            value: point[1].estimate,
            range: interval(point[1].low, point[1].high, kind.unit(point[1].estimate)),
          }
        );
      })
      .filter(Boolean);
  const unit = sweep.axis === "rate" ? "requests/s" : sweep.axis;
  return {
    option: {
      grid: { left: 4, right: 14, top: 10, bottom: 4, containLabel: true },
      tooltip: tooltip(theme, {
        trigger: "axis",
        formatter: (points) =>
          `<b>${grouped(Number(points[0].axisValue))} ${unit}</b><br>${rows(at(Number(points[0].axisValue)), kind)}`,
      }),
      xAxis: logAxis(theme, (x) => grouped(x), {
        min: sweep.at[0] / 1.15,
        max: sweep.at[sweep.at.length - 1] * 1.15,
        splitLine: { show: false },
        axisLabel: {
          ...textStyle(theme.quiet, 12),
          hideOverlap: true,
          customValues: sweep.at,
          formatter: (x) => grouped(x),
        },
      }),
      yAxis: log
        ? logAxis(theme, (value) => kind.format(value), around(all))
        : valueAxis(theme, kind, {
            min: 0,
            splitNumber: 4,
            ...(kind === kinds.bytes ? byteSteps(Math.max(...all)) : {}),
          }),
      series,
    },
    height: 230,
    table: {
      head: ["gateway", ...sweep.at.map((x) => `${grouped(x)} ${unit}`)],
      rows: found.map(({ who, points }) => [
        gateways[who].label,
        ...sweep.at.map((x) => {
          const point = points.find(([at]) => at === x);
          return point ? withInterval(point[1], kind) : "–";
        }),
      ]),
    },
    series: found.length,
  };
};

const frontierChart = (index) => (theme, width) => {
  const search = page.searches[index];
  const found = search.trials.filter((one) => isShown(one.gateway) && one.points.length);
  if (!found.length) return null;
  // A trial without a p99 is slower than any limit: it is drawn hollow at the top edge.
  const measured = found.flatMap((one) => one.points.map((point) => point[2])).filter((us) => us > 0);
  const scale = measured.length ? around(measured) : { min: 1e3, max: 1e6 };
  const up = (us) => us ?? scale.max;
  // Trials whose rates differ by less than 10 % form one group. The line goes through the median of each group.
  const middles = (points) => {
    const groups = [];
    for (const point of points) {
      const last = groups[groups.length - 1];
      if (last && point[0] < last[0][0] * 1.1) last.push(point);
      else groups.push([point]);
    }
    return groups.map((group) => {
      const times = group.map((point) => up(point[2])).sort((a, b) => a - b);
      return [group[Math.floor(group.length / 2)][0], times[Math.floor(times.length / 2)]];
    });
  };
  const series = found.flatMap((one) => [
    lineSeries(one.gateway, middles(one.points), { showSymbol: false, silent: true, tooltip: { show: false } }),
    {
      type: "scatter",
      name: gateways[one.gateway].label,
      data: one.points.map((point) => ({
        value: [point[0], up(point[2]), point[1], point[2]],
        itemStyle:
          point[2] === null ? { color: theme.card, borderColor: styleOf(one.gateway).colour, borderWidth: 2 } : {},
      })),
      symbol: styleOf(one.gateway).mark,
      symbolSize: 9,
      itemStyle: { color: styleOf(one.gateway).colour, opacity: 0.85 },
      markLine: {
        silent: true,
        symbol: "none",
        animation: false,
        lineStyle: { color: styleOf(one.gateway).colour, type: "dotted", width: 1.5 },
        label: { show: false },
        data: search.found
          .filter((held) => held.gateway === one.gateway && held.rate)
          .map((held) => ({ xAxis: held.rate.estimate })),
      },
    },
  ]);
  const all = found.flatMap((one) => one.points);
  const held = (who) =>
    search.found
      .filter((one) => one.gateway === who)
      .map((one) => (one.rate ? (one.at_least ? "≥ " : "") + rate(one.rate.estimate) : "–"));
  return {
    option: {
      grid: { left: 4, right: 20, top: 14, bottom: 4, containLabel: true },
      tooltip: tooltip(theme, {
        trigger: "item",
        formatter: (point) =>
          `<b>${escaped(point.seriesName)}</b><br>${rate(point.value[0])} requests/s<br>` +
          [["p50", point.value[2]], ["p99", point.value[3]]]
            .map(([name, us]) => (us === null ? `${name}: too few answers` : `${name} ${time(us)}`))
            .join(", "),
      }),
      xAxis: logAxis(theme, (value) => rate(value), around(all.map((point) => point[0]))),
      yAxis: logAxis(theme, (us) => time(us), scale),
      series,
    },
    height: 380,
    note: search.label,
    table: {
      head: ["gateway", ...search.objectives],
      rows: found.map((one) => [gateways[one.gateway].label, ...held(one.gateway)]),
    },
    series: found.length,
  };
};
