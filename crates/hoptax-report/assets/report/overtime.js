// Throughput and response time over time. Rounds are drawn side by side, because the gaps between trials mean nothing.

const overTimeChart = (theme, width) => {
  const found = shownAt(state.load).filter((one) => one.times.some((trial) => trial.throughput.length));
  if (!found.length) return null;
  const trials = found.flatMap((one) => one.times);
  const length = Math.max(...trials.map((trial) => trial.throughput.length * trial.step_s));
  const gap = length * 0.06;
  const rounds = [...new Set(trials.map((trial) => trial.round))].sort((a, b) => a - b);
  const start = (round) => rounds.indexOf(round) * (length + gap);
  const step = Math.max(...trials.map((trial) => trial.step_s));
  // The two direct trials of a round are drawn at the same place. The later of them has its own line.
  const points = (one, last, member) =>
    one.times
      .filter((trial) => trial.last === last)
      .flatMap((trial) => [
        ...trial[member].map((value, place) => [start(trial.round) + (place + 0.5) * trial.step_s, value]),
        [start(trial.round) + length + gap / 2, null],
      ]);
  const lines = found.flatMap((one) =>
    [false, true].filter((last) => one.times.some((trial) => trial.last === last)).map((last) => ({ one, last })),
  );
  const name = (line) => gateways[line.one.gateway].label + (line.last ? " (second)" : "");
  const panel = (member, grid) =>
    lines.map((line) =>
      lineSeries(line.one.gateway, points(line.one, line.last, member), {
        name: name(line),
        xAxisIndex: grid,
        yAxisIndex: grid,
        showSymbol: false,
        connectNulls: false,
        lineStyle: {
          width: 1.5,
          type: line.last ? [2, 2] : "solid",
          color: styleOf(line.one.gateway).colour,
          opacity: line.last ? 0.7 : 1,
        },
      }),
    );
  const series = [...panel("throughput", 0), ...panel(state.over, 1)];
  const events = new Map(
    found
      .flatMap((one) => one.events.map((event) => [`${event.at_s} ${event.event}`, event]))
      .sort((a, b) => a[1].at_s - b[1].at_s),
  );
  const end = start(rounds[rounds.length - 1]) + length;
  // With many rounds only some have a line and a name, so that names neither overlap nor are cut off at the right.
  const room = (width - 70) / 56;
  const every = Math.max(1, Math.ceil(rounds.length / room));
  const isNamed = (round, place) => place % every === 0 && (!place || (1 - start(round) / end) * room >= 1);
  const marked = [
    ...rounds.filter(isNamed).map((round) => ({
      xAxis: start(round),
      label: {
        show: true,
        formatter: `round ${round + 1}`,
        position: "end",
        distance: 4,
        rotate: 0,
        padding: [0, 0, 0, 56],
        ...textStyle(theme.quiet, 11),
      },
      lineStyle: { color: theme.rule, type: "solid" },
    })),
    ...rounds.flatMap((round) =>
      [...events.values()].map((event) => ({
        xAxis: start(round) + event.at_s,
        lineStyle: { color: theme.ink, type: "dashed", opacity: 0.6 },
        label: { show: false },
      })),
    ),
  ];
  const markLine = { silent: true, symbol: "none", animation: false, data: marked };
  series[0].markLine = markLine;
  series[lines.length].markLine = { ...markLine, data: marked.map((one) => ({ ...one, label: { show: false } })) };
  const where = (x) => {
    const round = rounds.filter((one) => start(one) <= x).pop() ?? rounds[0];
    return { round, at: x - start(round) };
  };
  const axis = (grid, more) => ({
    type: "value",
    gridIndex: grid,
    min: 0,
    max: end,
    axisLine: { show: false },
    axisTick: { show: false },
    splitLine: { show: false },
    axisLabel: { show: false },
    ...more,
  });
  const times = lines
    .flatMap((line) => points(line.one, line.last, state.over))
    .map((point) => point[1])
    .filter((value) => value > 0);
  const label = (text, top) => ({ text, left: 0, top, textStyle: { ...textStyle(theme.quiet, 12), fontWeight: 400 } });
  return {
    option: {
      title: [label("Throughput, requests/s", 0), label(`Response time, ${state.over.slice(0, 3)}`, 232)],
      grid: [
        { left: 58, right: 12, top: 44, height: 170 },
        { left: 58, right: 12, top: 258, height: 170 },
      ],
      axisPointer: { link: [{ xAxisIndex: "all" }] },
      dataZoom: [
        { type: "inside", xAxisIndex: [0, 1], zoomOnMouseWheel: "ctrl", moveOnMouseMove: false, filterMode: "none" },
        {
          type: "slider",
          xAxisIndex: [0, 1],
          bottom: 4,
          height: 18,
          showDetail: false,
          filterMode: "none",
          brushSelect: false,
          borderColor: theme.rule,
          fillerColor: theme.band,
          backgroundColor: "transparent",
          showDataShadow: false,
          handleStyle: { color: theme.card, borderColor: theme.quiet },
          moveHandleSize: 0,
        },
      ],
      tooltip: tooltip(theme, {
        trigger: "axis",
        formatter: (shown) => {
          const { round, at } = where(shown[0].axisValue);
          const near = (line, member) => {
            const trial = line.one.times.find((one) => one.round === round && one.last === line.last);
            return trial ? trial[member][Math.floor(at / trial.step_s)] : null;
          };
          const soon = [...events.values()]
            .filter((event) => Math.abs(event.at_s - at) <= step)
            .map((event) => `<br>⚑ ${escaped(event.event)}`)
            .join("");
          const each = lines
            .map((line) => ({ line, rate: near(line, "throughput"), time: near(line, state.over) }))
            .filter((one) => one.rate !== null && one.rate !== undefined);
          return (
            `<b>round ${round + 1}, ${number(at)} s</b>${soon}<br>` +
            each
              .map(
                (one) =>
                  `<span style="color:${styleOf(one.line.one.gateway).colour}">●</span> ${escaped(name(one.line))} <b>${rate(one.rate)}</b>/s, ${one.time === null ? "–" : time(one.time)}`,
              )
              .join("<br>")
          );
        },
      }),
      xAxis: [axis(0), axis(1)],
      yAxis: [
        valueAxis(theme, kinds.rate, { gridIndex: 0, min: 0, splitNumber: 4 }),
        { ...logAxis(theme, (us) => time(us), around(times)), gridIndex: 1 },
      ],
      series,
    },
    height: 466,
    note:
      loadOf(state.load).label +
      (events.size
        ? `. Dashed: ${[...events.values()].map((event) => `${event.event} at ${number(event.at_s)} s`).join(", ")}`
        : ""),
    table: {
      head: ["trial", "requests/s", "least", "most", `${state.over.slice(0, 3)}, largest of its points`],
      rows: lines.flatMap((line) =>
        line.one.times
          .filter((trial) => trial.last === line.last && trial.throughput.length)
          .map((trial) => {
            const mean = trial.throughput.reduce((sum, value) => sum + value, 0) / trial.throughput.length;
            const worst = Math.max(...trial[state.over].filter((value) => value !== null));
            return [
              `${name(line)}, round ${trial.round + 1}`,
              rate(mean),
              rate(Math.min(...trial.throughput)),
              rate(Math.max(...trial.throughput)),
              isFinite(worst) ? time(worst) : "–",
            ];
          }),
      ),
    },
    series: lines.length,
  };
};
