"""A measurement: ours, the floor in the same run, and their ratio."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """`higher_is_better`: rates; else times. ratio = ours / floor for rates, floor / ours for times: 1.00 is the floor."""

    what: str
    unit: str
    ours: float
    floor: float
    floor_is: str
    higher_is_better: bool = True
    note: str = ""

    @property
    def ratio(self) -> float:
        return self.ours / self.floor if self.higher_is_better else self.floor / self.ours


def table(rows: list[Measured]) -> str:
    lines = [f"{'what':<46} {'ours':>12} {'floor':>12} {'ratio':>6}  floor is"]
    for row in rows:
        ours, floor = f"{row.ours:.1f} {row.unit}", f"{row.floor:.1f} {row.unit}"
        lines.append(f"{row.what:<46} {ours:>12} {floor:>12} {row.ratio:>6.2f}  {row.floor_is}")
        if row.note:
            lines.append(f"{'':<46} {row.note}")
    return "\n".join(lines)
