"""What GPUs did, as pages show it: devices with their pods, 24 hours as a chart, a month by GPU type."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from frontend import formats
from frontend.charts import Chart, Series
from gpuaas.core.looks import Tone
from gpuaas.gpustats.models import GpuSample
from gpuaas.gpustats.selectors import DAY, DeviceDay, Figures, TypeMonth

IN_A_DAY = "Use of the GPUs in the last 24 hours"
STEPS = {15: "quarter of an hour", 60: "hour", 1440: "day"}


@dataclass(frozen=True)
class DeviceRow:
    """Figures in words; formats.NONE where they are not told. holder: the workspace, for operators."""

    pod: str
    holder: str
    device: str
    uuid: str
    node: str
    use: str
    mean: str
    memory: str
    power: str
    temperature: str
    xid: str
    tone: Tone
    seen_at: datetime | None


@dataclass(frozen=True)
class GpuCard:
    chart: Chart | None
    why: str
    advice: str


@dataclass(frozen=True)
class MonthRow:
    name: str
    held: float
    allocated: float
    used: float
    share: str
    energy: float


def card_of(figures: Figures, *, zone: tzinfo, title: str = IN_A_DAY) -> GpuCard:
    return GpuCard(
        chart=_chart(figures, zone, title) if figures.slots else None,
        why=figures.why,
        advice=figures.advice,
    )


def rows_of(devices: Sequence[DeviceDay]) -> list[DeviceRow]:
    return [_row(each) for each in devices]


def month_rows(found: Sequence[TypeMonth]) -> tuple[MonthRow, ...]:
    return tuple(
        MonthRow(
            each.gpu_type or "not known",
            each.held_hours,
            each.allocated_hours,
            each.used_hours,
            formats.NONE if each.used_share is None else f"{each.used_share:.0%}",
            each.energy_kwh,
        )
        for each in found
    )


def _row(each: DeviceDay) -> DeviceRow:
    now = each.now
    return DeviceRow(
        pod=each.pod,
        holder=f"{each.project}/{each.workspace}" if each.workspace else "",
        device=_device_words(each),
        uuid=each.device,
        node=each.node,
        use=_told(now.utilization if now else None, "%"),
        mean=_told(each.mean, "%"),
        memory=_memory_words(now),
        power=_told(now.power_watts if now else None, "W"),
        temperature=_told(now.temperature if now else None, "°C"),
        xid=(str(now.xid) if now.xid else "none") if now and now.xid is not None else formats.NONE,
        tone=Tone.WARN if now and now.xid else Tone.OK if now else Tone.OFF,
        seen_at=None if now else each.seen_at,
    )


def _device_words(each: DeviceDay) -> str:
    card = f"GPU {each.index}" if each.index else each.device
    return f"{card}, slice {each.instance} ({each.profile})" if each.instance else card


def _told(value: float | None, unit: str) -> str:
    return formats.NONE if value is None else f"{value:,.0f}{formats.suffix(unit)}"


def _memory_words(now: GpuSample | None) -> str:
    if now is None or now.memory_used_mib is None:
        return formats.NONE
    used = now.memory_used_mib / 1024
    if now.memory_free_mib is None:
        return f"{used:,.1f} GiB"
    return f"{used:,.1f} of {used + now.memory_free_mib / 1024:,.0f} GiB"


def _chart(figures: Figures, zone: tzinfo, title: str) -> Chart:
    slots, step = figures.slots, figures.step

    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, 1)

    def label(at: datetime) -> str:
        local = formats.zoned(at, zone)
        return f"{local:%H:%M}" if len(slots) * step <= DAY else f"{local.day} {local:%b %H:%M}"

    note = f"Means of each {_step_words(step)} over the devices that pods had. Where the line is missing, nothing was seen."
    if figures.kept_since is not None:
        note += f" Before {formats.when(figures.kept_since, zone)} nothing is kept any more."
    return Chart(
        id="gpu-day",
        title=title,
        labels=tuple(label(slot.starts_at) for slot in slots),
        series=(
            Series("utilization", tuple(rounded(slot.utilization) for slot in slots)),
            Series("memory", tuple(rounded(slot.memory) for slot in slots)),
        ),
        kind="line",
        unit="%",
        label_head="From",
        note=note,
    )


def _step_words(step: timedelta) -> str:
    minutes = step // timedelta(minutes=1)
    if minutes in STEPS:
        return STEPS[minutes]
    if minutes > 60:
        return f"{minutes // 60} hours"
    return "minute" if minutes == 1 else f"{minutes} minutes"
