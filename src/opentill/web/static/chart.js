// Draws each chart from its table (web/charts.py). If this script does not run or fails, the table
// stays open and shows the same numbers. The style sheet has the colors of both schemes.
"use strict";

(() => {
  const HEIGHT = matchMedia("(min-width: 70rem)").matches ? 300 : 240;
  const MOST_LABELS = 8; // bars with their values above them
  const language = document.documentElement.lang;
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // Returns a function that formats the values of an axis, short enough to fit beside the plot.
  function formatter(unit) {
    if (unit === "percent") {
      const format = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 2 });
      return (value) => format.format(value / 100);
    }
    const short = { notation: "compact", maximumFractionDigits: 1 };
    const options = unit === "count" ? short : {
      ...short, style: "currency", currency: unit, currencyDisplay: "narrowSymbol",
      minimumFractionDigits: 0,
    };
    const format = new Intl.NumberFormat(language, options);
    return (value) => format.format(value);
  }

  // Reads the table: its series, its rows, and the numbers of each series (null: an empty cell).
  function read(table) {
    const series = [...table.tHead.rows[0].cells].slice(1).map((cell) => (
      { name: cell.textContent, kind: cell.dataset.kind, unit: cell.dataset.unit }
    ));
    const rows = [...table.tBodies[0].rows];
    const columns = series.map((_, index) => rows.map((row) => {
      const text = row.cells[index + 1].dataset.value;
      return text === "" ? null : Number(text);
    }));
    return { series, rows, columns };
  }

  // Returns the distance of the gridlines: 1, 2, 2.5 or 5 times a power of ten, at most four of them.
  function distance(bottom, top, isWhole) {
    const least = (top - bottom) / 4 || 0.25;
    const power = 10 ** Math.floor(Math.log10(least));
    const factors = isWhole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10];
    const found = power * factors.find((factor) => factor * power >= least * (1 - 1e-9));
    return isWhole ? Math.max(1, found) : found;
  }

  // Returns the values of the gridlines; the first and the last are the ends of the axis, so that
  // no bar is higher than the highest gridline.
  function gridlines(unit, values) {
    if (unit === "percent" && Math.max(...values) > 40) return [0, 25, 50, 75, 100];
    const [bottom, top] = [Math.min(0, ...values), Math.max(0, ...values)];
    const interval = distance(bottom, top, unit === "count");
    const first = Math.floor(bottom / interval + 1e-9);
    const last = Math.max(Math.ceil(top / interval - 1e-9), first + 1);
    return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * interval);
  }

  function draw(figure) {
    const place = figure.querySelector(".chart-plot");
    const reading = figure.querySelector(".chart-reading");
    const { series, rows, columns } = read(figure.querySelector("table"));
    const units = [...new Set(series.map((one) => one.unit))];
    const bars = series.filter((one) => one.kind === "bars");
    const hasLabels = bars.length === 1 && series.length === 1 && rows.length <= MOST_LABELS;
    // The last row may be a day that is not over: no line leads to its point, which is a series of its own.
    const last = rows.length - 1;
    const isOpen = last > 0 && "open" in rows[last].dataset;
    const lines = series.flatMap((one, index) => isOpen && one.kind === "line" ? [index] : []);
    const full = columns.map((values, index) => lines.includes(index) ? [...values.slice(0, last), null] : values);
    const open = lines.map((index) => columns[index].map((value, at) => at < last ? null : value || null));
    const grids = Object.fromEntries(units.map((unit) => (
      [unit, gridlines(unit, columns.filter((_, index) => series[index].unit === unit).flat().map((value) => value ?? 0))]
    )));
    let plot = null;

    // Shows the row under the pointer, with the texts of the table.
    function show(index) {
      const row = rows[index];
      reading.textContent = row
        ? [row.cells[0].textContent, ...series.map((one, at) => `${one.name} ${row.cells[at + 1].textContent}`)].join(" · ")
        : "";
    }

    // Writes the value above each bar, if all of them have room.
    function label(self, ink) {
      if (!hasLabels) return;
      const { ctx, bbox } = self;
      const texts = rows.map((row, index) => columns[0][index] > 0 ? row.cells[1].textContent.trim() : "");
      ctx.save();
      ctx.font = `600 ${12 * devicePixelRatio}px ${getComputedStyle(figure).fontFamily}`;
      ctx.fillStyle = ink;
      ctx.textAlign = "center";
      ctx.textBaseline = "bottom";
      if (texts.every((text) => ctx.measureText(text).width < bbox.width / rows.length)) {
        texts.forEach((text, index) => {
          const top = self.valToPos(columns[0][index], series[0].unit, true) - 4 * devicePixelRatio;
          if (text) ctx.fillText(text, self.valToPos(index, "x", true), top);
        });
      }
      ctx.restore();
    }

    function options() {
      const style = getComputedStyle(figure);
      const color = (name) => style.getPropertyValue(name).trim();
      const font = `12px ${style.fontFamily}`;
      const axis = { stroke: color("--soft"), font, ticks: { show: false } };
      return {
        width: Math.max(place.clientWidth, 160),
        height: HEIGHT,
        padding: [hasLabels ? 20 : 8, units.length > 1 ? 0 : 8, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
        scales: {
          x: { time: false, range: () => [-0.6, rows.length - 0.4] },
          ...Object.fromEntries(units.map((unit) => [unit, { range: () => [grids[unit][0], grids[unit].at(-1)] }])),
        },
        axes: [
          {
            ...axis,
            grid: { show: false },
            space: 64,
            size: 28,
            incrs: [1, 2, 3, 5, 7, 10, 14, 20, 30, 60, 90],
            values: (_, splits) => splits.map((at) => rows[at]?.cells[0].dataset.short ?? ""),
          },
          ...units.map((unit, index) => ({
            ...axis,
            scale: unit,
            side: index ? 1 : 3,
            size: 58,
            splits: () => grids[unit],
            grid: index ? { show: false } : { stroke: color("--line"), width: 1 },
            values: ((format) => (_, splits) => splits.map((value) => value === null ? "" : format(value)))(formatter(unit)),
          })),
        ],
        series: [
          {},
          ...series.map((one, index) => {
            const paint = color(`--chart-${index + 1}`);
            const shared = { label: one.name, scale: one.unit, stroke: paint, points: { show: false } };
            return one.kind === "bars"
              ? { ...shared, width: 0, fill: paint, paths: uPlot.paths.bars({ size: [0.7 / bars.length, 40], align: bars.length < 2 ? 0 : bars.indexOf(one) ? 1 : -1 }) }
              : { ...shared, width: 2, spanGaps: false, points: { show: true, size: 5, fill: paint } };
          }),
          ...lines.map((index) => {
            const paint = color(`--chart-${index + 1}`);
            return { label: "", scale: series[index].unit, stroke: paint, width: 2, points: { show: true, size: 7, fill: color("--card") } };
          }),
        ],
        hooks: { setCursor: [(self) => show(self.cursor.idx)], draw: [(self) => label(self, color("--ink"))] },
      };
    }

    function redraw() {
      plot?.destroy();
      plot = new uPlot(options(), [rows.map((_, index) => index), ...full, ...open], place);
    }

    redraw();
    figure.classList.add("drawn");
    figure.querySelector("details").open = false;
    dark.addEventListener("change", redraw);
    new ResizeObserver(() => {
      if (plot && Math.abs(plot.width - place.clientWidth) > 1) plot.setSize({ width: Math.max(place.clientWidth, 160), height: HEIGHT });
    }).observe(place);
  }

  // Adds the legend: the names of the series with their colors.
  function addKey(figure) {
    const names = figure.querySelectorAll("thead th[data-kind]");
    if (names.length < 2) return; // the title names a single series
    const key = document.createElement("ul");
    key.className = "chart-key";
    key.setAttribute("aria-hidden", "true");
    names.forEach((cell, index) => {
      const item = document.createElement("li");
      item.className = `chart-key-${index + 1} chart-${cell.dataset.kind}`;
      item.textContent = cell.textContent;
      key.append(item);
    });
    figure.querySelector(".chart-plot").before(key);
  }

  function drawAll() {
    for (const figure of document.querySelectorAll("figure.chart:not(.drawn)")) {
      if (figure.querySelector(".chart-plot") && figure.querySelector("tbody tr")) { // else without numbers
        draw(figure);
        addKey(figure);
      }
    }
  }

  drawAll();
  document.addEventListener("charts:added", drawAll); // sent when a part of the page was replaced
})();
