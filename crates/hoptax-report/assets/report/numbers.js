// Formats numbers like the other parts of the report: three significant digits, a real minus sign, and a space before
// the unit.

const grouped = (value) => {
  const text = Math.abs(value)
    .toFixed(0)
    .replace(/\B(?=(\d{3})+$)/g, ",");
  return value < 0 && text !== "0" ? "−" + text : text;
};

const number = (value) => {
  const size = Math.abs(value);
  if (size >= 99.95) return grouped(value);
  const text = String(Number(size.toFixed(size >= 9.995 ? 1 : 2)));
  return value < 0 && text !== "0" ? "−" + text : text;
};

// A unit is { by, name }: `by` is the divisor.
const timeUnit = (us) => {
  const size = Math.abs(us);
  if (size < 1e3) return { by: 1, name: "µs" };
  return size < 1e6 ? { by: 1e3, name: "ms" } : { by: 1e6, name: "s" };
};
const rateUnit = (rate) => (Math.abs(rate) < 2000 ? { by: 1, name: "" } : { by: 1e3, name: "k" });
const bytesUnit = (bytes) => {
  const power = Math.min(3, Math.floor(Math.log(Math.max(Math.abs(bytes), 1)) / Math.log(1024)));
  return { by: 1024 ** power, name: ["B", "KiB", "MiB", "GiB"][power] };
};
const percentUnit = () => ({ by: 0.01, name: "%" });

const inUnit = (value, unit) => (unit.name ? `${number(value / unit.by)} ${unit.name}` : number(value / unit.by));
const time = (us) => inUnit(us, timeUnit(us));
const rate = (value) => inUnit(value, rateUnit(value));
const bytes = (value) => inUnit(value, bytesUnit(value));
const percent = (share) => inUnit(share, percentUnit());

// The decimal with the first digit of a number below one.
const firstDecimal = (size) => Math.min(12, Math.max(0, -Math.floor(Math.log10(size))));
// A number up to this size is zero with a rounding error.
const ROUNDING = 1e-9;
// Formats a number like `number`, but shows only zero as zero.
const nonzero = (value) => {
  const text = number(value);
  const size = Math.abs(value);
  if (text !== "0" || size <= ROUNDING) return text;
  return (value < 0 ? "−" : "") + size.toFixed(firstDecimal(size));
};

// Formats the ends of an interval with as many decimals as the width of the interval requires. An interval that
// excludes zero does so after rounding too.
const ends = (low, high) => {
  const width = high - low;
  if (!(width > 0) || !isFinite(width)) return [nonzero(low), nonzero(high)];
  let decimals = Math.min(3, Math.max(0, -Math.floor(Math.log10(width / 10))));
  // Above zero if the interval excludes zero.
  const nearest = Math.max(low, -high);
  if (nearest > ROUNDING && nearest <= 0.5 * 10 ** -decimals) decimals = firstDecimal(nearest);
  return [low, high].map((end) => {
    const [whole, fraction] = Math.abs(end).toFixed(decimals).split(".");
    if (!Number(whole) && !Number(fraction || 0)) return "0";
    return (end < 0 ? "−" : "") + grouped(Number(whole)) + (fraction ? "." + fraction : "");
  });
};

const interval = (low, high, unit) => {
  if (low === null || low === undefined || high === null || high === undefined) return "no interval";
  const [from, to] = ends(low / unit.by, high / unit.by);
  return from + (low < 0 || high < 0 ? " to " : "–") + to;
};

// The unit and the formatting function of each kind of value.
const kinds = {
  time: { unit: timeUnit, format: time },
  rate: { unit: rateUnit, format: rate },
  bytes: { unit: bytesUnit, format: bytes },
  share: { unit: percentUnit, format: percent },
};

const signed = (value, kind) => (value > 0 ? "+" : "") + kind.format(value);
// Formats an estimate with its interval: `+42 µs (38–46)`.
const withInterval = (one, kind, sign) => {
  const text = sign ? signed(one.estimate, kind) : kind.format(one.estimate);
  return `${text} (${interval(one.low, one.high, kind.unit(one.estimate))})`;
};
