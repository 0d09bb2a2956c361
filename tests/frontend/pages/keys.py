"""A page by keyboard alone: Tab is pressed as a person presses it; a listener on the page writes down where the focus came,
whether one sees it there, and what can be clicked but not reached."""

from playwright.sync_api import Locator, Page, expect

# Fetching stands still, so that what is walked through is what was counted; an answer that is on its way changes nothing either.
# Nothing fades: a color under way is no color.
STILL = """() => {
  XMLHttpRequest.prototype.send = () => {};
  addEventListener('htmx:beforeSwap', event => { event.detail.shouldSwap = false; });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync('*, *::before, *::after { transition: none !important; animation: none !important; scroll-behavior: auto !important }');
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}"""
# `root`: of the dialog that is open, or the page. What Tab has to reach, in order; how each looks without the focus; and the log.
BEGIN = """(selector) => {
  const root = selector ? document.querySelector(selector) : document.body;
  const shown = each => each.checkVisibility({ visibilityProperty: true });
  const all = [...root.querySelectorAll(
    'a[href], button, input:not([type=hidden]), select, textarea, summary, iframe, [tabindex], [contenteditable]')];
  const inOtherDialog = each => each.closest('dialog') && !root.matches('dialog');
  const group = each => each.type === 'radio' && each.name ?
    all.filter(other => other.type === 'radio' && other.name === each.name && other.form === each.form && !other.disabled) : [];
  const isStop = each => {
    if (each.disabled || each.tabIndex < 0 || !shown(each) || inOtherDialog(each)) return false;
    const radios = group(each);
    return !radios.length || each === (radios.find(other => other.checked) ?? radios[0]);
  };
  const stops = all.filter(isStop);
  const carriers = each => [each, ...(each.labels ?? []), each.parentElement, each.nextElementSibling].filter(Boolean);
  const look = each => carriers(each).flatMap(one => [null, '::before', '::after'].map(part => {
    const s = getComputedStyle(one, part);
    const outline = s.outlineStyle === 'none' || parseFloat(s.outlineWidth) === 0 ? '' : s.outline;
    return [outline, s.boxShadow, s.borderColor, s.backgroundColor, s.textDecorationLine, s.opacity].join('|');
  })).join('\\n');
  const name = each => each === document.body ? 'the page' : each.outerHTML.replace(/\\s+/g, ' ').slice(0, 140);
  const focused = document.activeElement;
  focused?.blur();
  const before = new Map(stops.map(each => [each, look(each)]));
  if (focused !== document.body) focused?.focus();
  const found = [];
  const reached = [];
  const covered = each => {
    const box = each.getClientRects()[0] ?? each.getBoundingClientRect();
    const left = Math.max(box.left, 0), right = Math.min(box.right, innerWidth);
    const top = Math.max(box.top, 0), bottom = Math.min(box.bottom, innerHeight);
    if (right - left < 1 || bottom - top < 1) return 'outside the window';
    const above = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    const mine = above && (each.contains(above) || above.contains(each) || [...(each.labels ?? [])].some(one => one.contains(above)));
    return mine ? '' : `under ${above ? name(above) : 'nothing'}`;
  };
  const note = () => {
    const here = document.activeElement ?? document.body;
    if (reached.at(-1) === here) return;
    reached.push(here);
    if (here === document.body || here === document.documentElement) return;
    if (!root.contains(here)) return void found.push(`the focus leaves to ${name(here)}`);
    const where = covered(here);
    if (where) found.push(`the focus is ${where}: ${name(here)}`);
    if (before.has(here) && before.get(here) === look(here)) found.push(`one does not see the focus on ${name(here)}`);
  };
  addEventListener('keydown', event => event.key === 'Tab' && note(), true);
  const clickable = [...root.querySelectorAll('*')].filter(each => shown(each) && !inOtherDialog(each)
    && getComputedStyle(each).cursor === 'pointer' && getComputedStyle(each.parentElement).cursor !== 'pointer');
  const reach = 'a[href], button, input, select, textarea, summary, label, [tabindex]';
  for (const each of clickable)
    if (!each.closest(reach) && !each.querySelector(reach)) found.push(`a click only: ${name(each)}`);
  // such a stop comes before all others, which a walk from the beginning does not show
  for (const each of stops) if (each.tabIndex > 0) found.push(`not in order: ${name(each)}`);
  window.keysEnd = () => {
    note();
    const steps = reached.filter(each => each !== document.body && before.has(each));
    const times = new Map();
    for (const each of steps) times.set(each, (times.get(each) ?? 0) + 1);
    for (const each of stops) if (!times.has(each)) found.push(`Tab does not reach ${name(each)}`);
    const first = focused === document.body ? 0 : Math.max(stops.indexOf(steps[0]), 0);  // a dialog begins at its first field
    const wanted = [...stops.slice(first), ...stops.slice(0, first)];
    const once = steps.slice(0, stops.length);
    const wrong = once.findIndex((each, at) => each !== wanted[at]);
    if (wrong >= 0 && !found.length) found.push(`not in order: ${name(once[wrong])} instead of ${name(wanted[wrong])}`);
    return found;
  };
  const parts = stops.filter(each => /^(date|time|month|week|datetime-local)$/.test(each.type)).length;
  return { presses: stops.length + parts * 7 + 1 };
}"""


# the next Tab goes on from where the focus was last, also when that is gone
TO_THE_BEGINNING = """() => {
  const here = document.createElement('i');
  here.tabIndex = -1;
  document.body.prepend(here);
  here.focus();
  here.remove();
}"""
TAB = {"type": "rawKeyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}


def still(page: Page) -> None:
    """When live parts have been fetched again after the connection: nothing on the page moves any more."""
    page.wait_for_load_state("networkidle")
    page.evaluate(STILL)


def walk(page: Page, root: str = "") -> list[str]:
    """Tab through the page from its beginning, whatever has the focus there, or through the dialog `root`; what is wrong with it."""
    if not root:
        page.evaluate(TO_THE_BEGINNING)
    begun = page.evaluate(BEGIN, root)
    keys = page.context.new_cdp_session(page)
    for _ in range(begun["presses"]):
        keys.send("Input.dispatchKeyEvent", TAB)
    keys.detach()
    found: list[str] = page.evaluate("keysEnd()")
    return found


def skip_link(page: Page) -> list[str]:
    """It is the first stop of a page, it is seen there, and the next stop after it is in the content."""
    page.evaluate(TO_THE_BEGINNING)
    page.keyboard.press("Tab")
    first = page.evaluate("document.activeElement.className")
    page.keyboard.press("Enter")
    at = page.evaluate("document.activeElement.id")
    page.keyboard.press("Tab")
    inside = page.evaluate(
        "document.activeElement === document.body || document.getElementById('main').contains(document.activeElement)"
    )
    ok = "g-skip" in first and at == "main" and inside
    return [] if ok else [f"the link to the content: {first!r}, then {at!r}"]


def opens(page: Page, opener: Locator, dialog: str) -> list[str]:
    """A dialog by Enter, walked through, closed by Escape; the focus is back where it came from."""
    opener.focus()
    page.keyboard.press("Enter")
    shown = page.locator(f"dialog[id='{dialog}']")
    expect(shown).to_be_visible()
    found = []
    if not shown.evaluate("each => each.contains(document.activeElement)"):
        found.append(f"#{dialog} opens without the focus")
    found += [f"#{dialog}: {what}" for what in walk(page, f"dialog[id='{dialog}']")]
    page.keyboard.press("Escape")
    expect(shown).not_to_be_visible()
    if not opener.evaluate("each => each === document.activeElement"):
        at = page.evaluate("document.activeElement.outerHTML.slice(0, 100)")
        found.append(f"#{dialog} closes and the focus is on {at}")
    return found


def menu(page: Page, opener: Locator) -> list[str]:
    """Opens by Enter with the focus in it, is left by Tab or Escape, and then is closed."""
    opener.focus()
    page.keyboard.press("Enter")
    shown = page.locator(f"#{opener.get_attribute('data-menu-open')}")
    expect(shown).to_be_visible()
    found = []
    if not shown.evaluate("each => each.contains(document.activeElement)"):
        found.append("a menu opens without the focus")
    page.keyboard.press("Escape")
    expect(shown).not_to_be_visible()
    if not opener.evaluate("each => each === document.activeElement"):
        found.append("a menu closes without giving the focus back")
    page.keyboard.press("Space")
    expect(shown).to_be_visible()
    for _ in range(shown.locator("a, button").count() + 1):
        page.keyboard.press("Tab")
    if shown.is_visible():
        found.append("a menu stays open when the focus has left it")
    return found
