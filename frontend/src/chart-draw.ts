import {
  BarController,
  BarElement,
  CategoryScale,
  Chart,
  LinearScale,
  LineController,
  LineElement,
  PointElement,
  Tooltip,
  type ChartConfiguration,
  type ChartDataset,
  type Plugin,
} from "chart.js";
import { one } from "./dom";

Chart.register(
  BarController,
  BarElement,
  CategoryScale,
  LinearScale,
  LineController,
  LineElement,
  PointElement,
  Tooltip,
);

interface Data {
  kind: "stack" | "bar" | "line";
  labels: string[];
  suffix: string;
  prefix: string;
  places: number | null;
  expectedFrom: number | null;
  limit: number | null;
  limitLabel: string;
  series: { name: string; values: (number | null)[] }[];
}

const probe = document.createElement("i");
probe.hidden = true;

/** Colors as the browser resolves them: a canvas does not know light-dark(). */
function color(token: string): string {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(--g-${token})`;
  return getComputedStyle(probe).color;
}

function amount(data: Data, value: number): string {
  const text = Math.abs(value).toLocaleString("en-US", {
    minimumFractionDigits: data.places ?? 0,
    maximumFractionDigits: data.places ?? 2,
  });
  return `${value < 0 ? "\u2212" : ""}${data.prefix}${text}${data.suffix}`;
}

const HATCH = 6; // pixels from one line to the next

/** What is expected is drawn in lines instead of a plain color. */
function hatched(fill: string): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = HATCH;
  const pen = tile.getContext("2d");
  if (!pen) return fill;
  pen.strokeStyle = fill;
  pen.lineWidth = 1.5;
  pen.beginPath();
  for (const start of [-HATCH, 0, HATCH]) {
    pen.moveTo(start, HATCH);
    pen.lineTo(start + HATCH, 0);
  }
  pen.stroke();
  return pen.createPattern(tile, "repeat") ?? fill;
}

/** The lines for where the expected part begins and for the limit, each with its label. */
function marks(data: Data): Plugin {
  return {
    id: "marks",
    afterDatasetsDraw({ ctx: pen, chartArea: area, scales }) {
      const { x, y } = scales;
      if (!x || !y) return;
      pen.save();
      pen.font = `11px ${FONT()}`;
      if (data.expectedFrom !== null && data.expectedFrom < data.labels.length) {
        const here = x.getPixelForValue(data.expectedFrom);
        const left = data.expectedFrom ? (x.getPixelForValue(data.expectedFrom - 1) + here) / 2 : area.left;
        stroke(pen, color("line-strong"), 1.2, [1.2, 3.6], [left, area.bottom], [left, area.top]);
        pen.fillStyle = color("text-3");
        pen.fillText("expected", left + 6, area.top - 6);
      }
      if (data.limit !== null && data.limit <= y.max) {
        const height = y.getPixelForValue(data.limit);
        stroke(pen, color("text"), 1, [4, 3], [area.left, height], [area.right, height]);
        pen.fillStyle = color("text-2");
        pen.fillText(data.limitLabel, area.left + 4, height - 4);
      }
      pen.restore();
    },
  };
}

type Point = [number, number];

function stroke(
  pen: CanvasRenderingContext2D,
  style: string,
  width: number,
  dash: number[],
  from: Point,
  to: Point,
): void {
  pen.strokeStyle = style;
  pen.lineWidth = width;
  pen.setLineDash(dash);
  pen.beginPath();
  pen.moveTo(...from);
  pen.lineTo(...to);
  pen.stroke();
}

const FONT = (): string => getComputedStyle(document.body).fontFamily;

function dataset(data: Data, one: Data["series"][number], place: number): ChartDataset<"bar" | "line"> {
  const fill = color(`c${Math.min(place, 5) + 1}`);
  if (data.kind === "line")
    return {
      type: "line",
      label: one.name,
      data: one.values,
      borderColor: fill,
      backgroundColor: fill,
      borderWidth: 1.75,
    };
  const expected = hatched(fill);
  const from = data.expectedFrom ?? data.labels.length;
  return {
    type: "bar",
    label: one.name,
    data: one.values,
    backgroundColor: one.values.map((_, index) => (index >= from ? expected : fill)),
    borderColor: color("surface"),
    borderWidth: 0.5,
    borderSkipped: false,
    maxBarThickness: 40,
    categoryPercentage: 0.78,
    barPercentage: 1,
  };
}

function configuration(data: Data): ChartConfiguration<"bar" | "line"> {
  const font = { size: 11, family: FONT() };
  const stacked = data.kind === "stack";
  return {
    type: data.kind === "line" ? "line" : "bar",
    data: {
      labels: data.labels,
      datasets: data.series.map((one, place) => dataset(data, one, place)),
    },
    options: {
      animation: false,
      maintainAspectRatio: false,
      interaction: { mode: "index", intersect: false },
      layout: { padding: { top: 20, right: 4 } },
      elements: { point: { radius: 0, hoverRadius: 3 } },
      scales: {
        x: {
          stacked,
          offset: true,
          border: { color: color("line-strong") },
          grid: { display: false },
          ticks: { color: color("text-3"), font, maxRotation: 0, autoSkipPadding: 8 },
        },
        y: {
          stacked,
          beginAtZero: true,
          border: { display: false },
          grid: { color: color("grid"), drawTicks: false },
          ticks: {
            color: color("text-3"),
            font,
            maxTicksLimit: 6,
            callback: (value) => amount(data, Number(value)),
          },
        },
      },
      plugins: {
        tooltip: {
          backgroundColor: color("raised"),
          borderColor: color("line-2"),
          borderWidth: 1,
          padding: 8,
          titleColor: color("text"),
          titleFont: { ...font, size: 12 },
          bodyColor: color("text"),
          bodyFont: { ...font, size: 12 },
          callbacks: { label: (item) => `${item.dataset.label ?? ""}: ${amount(data, Number(item.raw))}` },
        },
      },
    },
    plugins: [marks(data)],
  };
}

export function drawChart(figure: HTMLElement): void {
  const place = one("[data-chart-canvas]", figure);
  const source = figure.dataset["chart"];
  if (!place || !source || place.offsetParent === null) return;
  const canvas =
    one<HTMLCanvasElement>("canvas", place) ?? place.appendChild(document.createElement("canvas"));
  Chart.getChart(canvas)?.destroy();
  new Chart(canvas, configuration(JSON.parse(source) as Data));
}
