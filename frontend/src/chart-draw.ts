import { BarChart, LineChart } from "echarts/charts";
import { AriaComponent, GridComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import { getInstanceByDom, init, use, type EChartsCoreOption } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { one } from "./dom";

use([BarChart, LineChart, GridComponent, TooltipComponent, MarkLineComponent, AriaComponent, SVGRenderer]);

interface Data {
  kind: "stack" | "bar" | "line";
  labels: string[];
  unit: string;
  prefix: string;
  places: number | null;
  expectedFrom: number | null;
  limit: number | null;
  limitLabel: string;
  series: { name: string; values: number[] }[];
}

const probe = document.createElement("i");
probe.hidden = true;

/** Colors as the browser resolves them: ECharts does not know light-dark(). */
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
  return `${value < 0 ? "\u2212" : ""}${data.prefix}${text}${data.unit ? ` ${data.unit}` : ""}`;
}

function hatched(fill: string): object {
  return {
    color: color("surface"),
    borderColor: fill,
    borderWidth: 0,
    decal: {
      color: fill,
      symbol: "rect",
      symbolSize: 1,
      dashArrayX: [1, 0],
      dashArrayY: [1.3, 2.9],
      rotation: -Math.PI / 4,
    },
  };
}

function marks(data: Data): object[] {
  const lines: object[] = [];
  if (data.expectedFrom !== null && data.expectedFrom < data.labels.length) {
    const label = {
      formatter: "expected",
      color: color("text-3"),
      fontSize: 11,
      position: "end",
      align: "left",
      distance: [4, -12],
      padding: [0, 0, 0, 6],
    };
    lines.push({
      xAxis: data.expectedFrom - 0.5,
      label,
      lineStyle: { color: color("line-strong"), type: [1, 3], width: 1.2 },
    });
  }
  if (data.limit !== null) {
    const label = {
      formatter: data.limitLabel,
      color: color("text-2"),
      fontSize: 11,
      position: "insideStartTop",
    };
    lines.push({ yAxis: data.limit, label, lineStyle: { color: color("text"), type: [4, 3], width: 1 } });
  }
  return lines;
}

function series(data: Data): object[] {
  return data.series.map((one, place) => {
    const fill = color(`c${Math.min(place, 5) + 1}`);
    const line =
      place === 0 ? { markLine: { silent: true, symbol: "none", animation: false, data: marks(data) } } : {};
    if (data.kind === "line")
      return {
        ...line,
        type: "line",
        name: one.name,
        data: one.values,
        symbol: "none",
        lineStyle: { color: fill, width: 1.75 },
      };
    const values = one.values.map((value, index) => ({
      value,
      itemStyle: data.expectedFrom !== null && index >= data.expectedFrom ? hatched(fill) : { color: fill },
    }));
    const gap = { borderColor: color("surface"), borderWidth: 0.5 };
    return {
      ...line,
      type: "bar",
      name: one.name,
      stack: data.kind === "stack" ? "all" : undefined,
      barCategoryGap: "22%",
      barMaxWidth: 40,
      itemStyle: gap,
      data: values,
    };
  });
}

function options(data: Data): EChartsCoreOption {
  const text = {
    color: color("text-3"),
    fontSize: 11,
    fontFamily: getComputedStyle(document.body).fontFamily,
  };
  return {
    animation: false,
    textStyle: { fontFamily: text.fontFamily },
    grid: { left: 4, right: 4, top: 20, bottom: 6, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    xAxis: {
      type: "category",
      data: data.labels,
      axisTick: { show: false },
      axisLine: { lineStyle: { color: color("line-strong") } },
      axisLabel: text,
    },
    yAxis: {
      type: "value",
      splitNumber: 4,
      minInterval: data.places === null ? 0 : 10 ** -data.places,
      axisLabel: { ...text, formatter: (value: number) => amount(data, value) },
      splitLine: { lineStyle: { color: color("grid") } },
    },
    tooltip: {
      trigger: "axis",
      axisPointer: { type: "shadow" },
      appendTo: "body",
      renderMode: "richText",
      backgroundColor: color("raised"),
      borderColor: color("line-2"),
      borderWidth: 1,
      padding: 8,
      textStyle: { color: color("text"), fontSize: 12 },
      valueFormatter: (value: unknown) => amount(data, Number(value)),
    },
    series: series(data),
  };
}

const watcher = new ResizeObserver((found) => {
  for (const entry of found) getInstanceByDom(entry.target as HTMLElement)?.resize();
});

export function drawChart(figure: HTMLElement): void {
  const canvas = one("[data-chart-canvas]", figure);
  const source = figure.dataset["chart"];
  if (!canvas || !source || canvas.offsetParent === null) return;
  const data = JSON.parse(source) as Data;
  const chart = getInstanceByDom(canvas) ?? init(canvas, null, { renderer: "svg" });
  chart.setOption(options(data), true);
  watcher.observe(canvas);
}
