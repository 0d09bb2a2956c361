"""NVIDIA's PCI ids → the product name in other sites' labels for the same card, and its memory in MiB.

From the public PCI id registry; an unknown id becomes a GPU type named after the id, which an operator may rename.
"""

PRODUCTS: dict[str, tuple[str, int]] = {
    "1DB1": ("Tesla-V100-SXM2-16GB", 16384),
    "1DB4": ("Tesla-V100-PCIE-16GB", 16384),
    "1DB5": ("Tesla-V100-SXM2-32GB", 32768),
    "1DB6": ("Tesla-V100-PCIE-32GB", 32768),
    "1EB8": ("Tesla-T4", 15360),
    "20B0": ("NVIDIA-A100-SXM4-40GB", 40960),
    "20B2": ("NVIDIA-A100-SXM4-80GB", 81920),
    "20B5": ("NVIDIA-A100-80GB-PCIe", 81920),
    "20F1": ("NVIDIA-A100-PCIE-40GB", 40960),
    "20B7": ("NVIDIA-A30", 24576),
    "2230": ("NVIDIA-RTX-A6000", 49140),
    "2235": ("NVIDIA-A40", 46068),
    "2236": ("NVIDIA-A10", 23028),
    "25B6": ("NVIDIA-A16", 15356),
    "25B7": ("NVIDIA-A16-VF", 15356),
    "26B5": ("NVIDIA-L40", 46068),
    "26B9": ("NVIDIA-L40S", 46068),
    "27B8": ("NVIDIA-L4", 23034),
    "2321": ("NVIDIA-H100-NVL", 95830),
    "2330": ("NVIDIA-H100-80GB-HBM3", 81559),
    "2331": ("NVIDIA-H100-PCIe", 81559),
    "2335": ("NVIDIA-H200", 143771),
    "233B": ("NVIDIA-H200-NVL", 143771),
    "2901": ("NVIDIA-B200", 183359),
}


def product_of(resource_class: str) -> tuple[str, int]:
    """Of `CUSTOM_PCI_<vendor>_<product>`; memory 0 if unknown."""
    vendor, _, product = resource_class.removeprefix("CUSTOM_PCI_").partition("_")
    if vendor == "10DE" and product in PRODUCTS:
        return PRODUCTS[product]
    return f"PCI-{vendor}-{product}", 0


def product_called(model: str) -> tuple[str, int]:
    """By the model as an operator writes it: the whole name, with or without the maker, or what distinguishes it."""
    wanted = model.replace("_", "-").replace(" ", "-").upper().removeprefix("NVIDIA-")
    exact = [each for each in PRODUCTS.values() if each[0].upper().removeprefix("NVIDIA-") == wanted]
    return exact[0] if exact else product_named(wanted)


def product_named(model: str) -> tuple[str, int]:
    """By the model in an operator's trait (`L40S`); the first match, memory 0 if there is none."""
    wanted = model.replace("_", "-").upper()
    found = [each for each in PRODUCTS.values() if wanted in each[0].upper().split("-")]
    return found[0] if found else (f"NVIDIA-{model}", 0)
