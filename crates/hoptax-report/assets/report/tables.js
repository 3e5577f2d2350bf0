// Copies tables as CSV or Markdown, and saves them as files.

const cellText = (cell) => {
  const [range, doubt] = [cell.querySelector("small"), cell.querySelector(".unseen")];
  const own = [...cell.childNodes]
    .filter((node) => node !== range && node !== doubt)
    .map((node) => node.textContent)
    .join("")
    .trim();
  return own.replace(/^~/, "") + (range ? ` (${range.textContent.trim()})` : "") + (doubt ? doubt.textContent : "");
};
const tableRows = (table) =>
  [...table.rows].map((row) => [...row.cells].flatMap((cell) => [cellText(cell), ...Array(cell.colSpan - 1).fill("")]));

// Puts an apostrophe in front of a cell that a spreadsheet would interpret as a formula.
const csvCell = (text) => {
  const safe = /^[=@\t\r]|^[+-](?![\d.])/.test(text) ? `'${text}` : text;
  return /[",\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
};
const asCsv = (rows) => rows.map((row) => row.map(csvCell).join(",")).join("\n") + "\n";
const asMarkdown = ([head, ...rows]) => {
  const line = (row) =>
    `| ${row.map((text) => text.replace(/[\\|<>`*_]/g, "\\$&").replace(/\s+/g, " ")).join(" | ")} |`;
  return (
    [line(head), `|${head.map((_, place) => (place ? "---:" : "---")).join("|")}|`, ...rows.map(line)].join("\n") + "\n"
  );
};

const copy = async (text, button) => {
  // Keep the button's name, because the button may be pressed again while it reads "Copied".
  button.dataset.name ??= button.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without permission to use the clipboard, select the text and copy the selection.
    const field = element("textarea", { class: "unseen" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  button.textContent = "Copied";
  setTimeout(() => {
    button.textContent = button.dataset.name;
  }, 1500);
};

const addTableTools = (table, title) => {
  const button = (text, act) => element("button", { type: "button", onclick: act }, text);
  const scroll = table.closest(".scroll") || table;
  scroll.after(
    element(
      "div",
      { class: "tools table-tools" },
      button("Copy CSV", (event) => copy(asCsv(tableRows(table)), event.target)),
      button("Copy Markdown", (event) => copy(asMarkdown(tableRows(table)), event.target)),
      button("Save CSV", () =>
        download(new Blob([asCsv(tableRows(table))], { type: "text/csv" }), `${fileName(title)}.csv`),
      ),
    ),
  );
};
