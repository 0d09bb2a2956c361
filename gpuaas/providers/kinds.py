"""Derives from labels of NFD, GFD and DRA drivers a GPU type with the same name at every site."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gpuaas.providers.base import DeviceKind

# Cards report somewhat less memory than they are sold with; the slug has the size that people know.
SOLD_SIZES = (8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 72, 80, 94, 96, 128, 141, 144, 180, 192, 256, 288)
_NOISE = {
    *("nvidia", "tesla", "geforce", "amd", "instinct", "radeon", "intel"),
    *("graphics", "gpu", "shared", "server", "edition", "generation", "data", "center"),
    *("ac", "lc"),  # cooled by air or by a liquid
}
_MEMORY = re.compile(r"(\d+)GB", re.IGNORECASE)
_MEMORY_KIND = re.compile(r"(HBM|GDDR)\d*[EX]?", re.IGNORECASE)
_SXM = re.compile(r"SXM\d*", re.IGNORECASE)
_MIG = re.compile(r"[- ]MIG[- ](\d+[gc][\w.+]*)$", re.IGNORECASE)
_MIG_MEMORY = re.compile(r"\.(\d+)gb", re.IGNORECASE)
_PROFILE = re.compile(r"(?:(\d+)c\.)?(\d+)g(?:\.(\d+)gb)?", re.IGNORECASE)
_COMPUTE = 7  # slices that the hardware cuts a card into at most
_UNNAMED_GB = {"A30": 24, "H20": 96, "H200": 141, "B200": 180}  # cards whose names do not say their memory
_FORMS = ("nvl", "pcie", "oam")
USUAL_ARCH = "amd64"  # goes without saying in names
INTERCONNECTS = {"sxm": "NVLink", "nvl": "NVLink bridge", "pcie": "PCIe", "oam": "Infinity Fabric"}


@dataclass(frozen=True)
class Share:
    """One of `of` shares of a device (1: of unknown size); `limited`: each has its own memory, else all see the whole. word: the usual
    term for such a share.
    """

    of: int
    limited: bool = False
    word: str = "MPS"


def kind(
    product: str,
    *,
    memory_mib: int,
    mig_profile: str = "",
    share: Share | None = None,
    compute: str = "",
    dra: bool = False,
    ecc: bool | None = None,
    mig_capable: bool | None = None,
    nvlink: bool = False,
    arch: str = "",
) -> DeviceKind:
    """`product` as the site writes it (`NVIDIA-A100-SXM4-40GB-MIG-1g.5gb`); a profile in it takes precedence over `mig_profile`.

    `arch`: of the node's processor; what is built for one does not run on another, so that each is a kind of its own.
    `memory_mib` is the whole card's; for a slice the card's size is known only from the product's name.
    """
    in_name = _MIG.search(product.removesuffix("-SHARED"))
    profile = (in_name[1] if in_name else mig_profile).replace("+", ".")
    base = _MIG.sub("", product.removesuffix("-SHARED"))
    words, form, memory = _parts(base, memory_mib, slice_only=bool(profile))
    form = "" if profile else form  # a slice has no links of its own
    held = _held(_profile_memory(profile) or memory, share)
    marks = [*(["DRA"] if dra else []), arch if arch != USUAL_ARCH else ""]
    slug, name = _called(words, form, memory, [*_cut(profile, share, held).split(), *marks])
    sharing = "dra" if dra else "shared" if share else "mig" if profile else "whole"
    return DeviceKind(
        slug=slug,
        name=name,
        product=base,
        memory_gib=held,
        sharing=sharing,
        compute_capability=compute,
        mig_profile=profile,
        interconnect=INTERCONNECTS.get(form) or ("NVLink" if nvlink and not profile else ""),
        ecc=ecc,
        mig_capable=False if sharing in ("mig", "shared") or profile else mig_capable,
    )


def _held(memory: int, share: Share | None) -> int:
    return max(memory // share.of, 1) if share and share.limited else memory


def _called(words: list[str], form: str, memory: int, rest: list[str]) -> tuple[str, str]:
    """Slug and name."""
    size = [f"{memory} GB"] if memory else []
    shown = form.upper() if form != "pcie" else "PCIe"
    slug = "-".join(filter(None, [*words, form, *size, *rest])).replace(" ", "").lower()
    return re.sub(r"[^a-z0-9.-]+", "-", slug), " ".join(
        filter(None, [" ".join(words).upper(), shown, *size, *rest])
    )


def _cut(profile: str, share: Share | None, held: int) -> str:
    """What distinguishes a slice or share from the whole card, for people."""
    parts = [f"MIG {profile}"] if profile else []
    if share:
        size = f" 1of{share.of}" if share.of > 1 else ""
        parts.append(f"{share.word} {held}gb" if share.limited else f"shared{size}")
    return " ".join(parts)


def compute_capability(labels: Mapping[str, str]) -> str:
    major, minor = labels.get("nvidia.com/gpu.compute.major"), labels.get("nvidia.com/gpu.compute.minor")
    return f"{major}.{minor}" if major and minor else ""


def _parts(base: str, memory_mib: int, *, slice_only: bool) -> tuple[list[str], str, int]:
    """Model words, form factor (sxm, nvl, pcie, oam or none), and the memory in GB that it is sold with (0 = unknown)."""
    tokens = [token for token in re.split(r"[-_ ]+", base) if token]
    lowered = {token.lower() for token in tokens}
    form = "sxm" if any(_SXM.fullmatch(token) for token in tokens) else ""
    form = form or next((name for name in _FORMS if name in lowered), "")
    # the H100 of a DGX says HBM3 where others say SXM
    if not form and "h100" in lowered and "hbm3" in lowered:
        form = "sxm"
    words = [token.lower() for token in tokens if not _is_noise(token)]
    given = next((int(found[1]) for token in tokens if (found := _MEMORY.fullmatch(token))), 0)
    if slice_only:
        return words or ["gpu"], form, given
    # the 480GB of a GH200 are not its GPU's
    if given and memory_mib and abs(given - memory_mib / 1024) > given / 5:
        given = 0
    return words or ["gpu"], form, given or _sold_size(memory_mib)


def _is_noise(token: str) -> bool:
    patterns = (_MEMORY, _MEMORY_KIND, _SXM)
    return token.lower() in _NOISE or token.lower() in _FORMS or any(p.fullmatch(token) for p in patterns)


def _sold_size(mib: int) -> int:
    exact = mib / 1024
    return next((size for size in SOLD_SIZES if size >= exact - 0.5), round(exact))


def _profile_memory(profile: str) -> int:
    found = _MIG_MEMORY.search(profile)
    return int(found[1]) if found else 0


# -- how many cards devices are cut from ----------------------------------------------------------------------------


def cards_of(devices: Sequence[tuple[DeviceKind, int, int]]) -> list[Fraction]:
    """The cards of one node that its devices are cut from, in their order. A device: its kind, how many there are, and how many
    of them share one card or slice.

    Slices of one product lie on whole cards, as few as can hold them, and each is its part of these: seven of 1g are one
    card, two of 3g too, and so are a 4g and a 3g.
    """
    slices = [Fraction(count, max(shares, 1)) for _, count, shares in devices]
    cuts = [_cut_of(kind) for kind, *_ in devices]
    cards = []
    for (kind, *_), own, cut in zip(devices, slices, cuts, strict=True):
        if cut is None:
            cards.append(own)
            continue
        beside = [
            (count, each)
            for (other, *_), count, each in zip(devices, slices, cuts, strict=True)
            if each is not None and other.product == kind.product
        ]
        parts = [count / each.of_card for count, each in beside]
        least = max(sum(count * each.compute for count, each in beside), *parts)
        whole = -(-least.numerator // least.denominator)
        cards.append(whole * own / cut.of_card / sum(parts) if own else Fraction())
    return cards


@dataclass(frozen=True)
class Cut:
    """A slice's part of its card's compute, and how many such slices a card has."""

    compute: Fraction
    of_card: int


def _cut_of(kind: DeviceKind) -> Cut | None:
    """None for what is not cut from a card, or in a way that nobody knows."""
    found = _PROFILE.match(kind.mig_profile)
    if found is None:
        return None
    size = min(max(int(found[2]), 1), _COMPUTE)
    within = min(max(int(found[1] or size), 1), size)
    most = _COMPUTE // size
    if found[3] and (memory := _card_memory(kind.product)):
        most = max(min(most, round(memory / max(int(found[3]), 1))), 1)
    return Cut(Fraction(within, _COMPUTE), most * (size // within))


def _card_memory(product: str) -> int:
    named = _MEMORY.search(product)
    words = product.upper().replace("_", "-").split("-")
    return int(named[1]) if named else next((_UNNAMED_GB[word] for word in words if word in _UNNAMED_GB), 0)
