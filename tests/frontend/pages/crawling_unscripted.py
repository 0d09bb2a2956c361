"""The same way through the console in a browser that runs no script."""

from dataclasses import dataclass

from tests.frontend.pages.crawling import FILES, Crawl

# forms in sight that nothing sends, and what waits for a script that does not come
UNSENT = """() => [...document.querySelectorAll('form')]
  .filter(each => each.checkVisibility() && each.getClientRects().length)
  .filter(each => ![...each.elements].some(one => one.type === 'submit' && one.checkVisibility() && !one.disabled))
  .filter(each => !each.querySelector('.g-reason')?.innerText.trim())
  .map(each => each.outerHTML.replace(/\\s+/g, ' ').slice(0, 160))"""
WAITING = """() => [...document.querySelectorAll('[data-scripted], [aria-busy=true]')].filter(each => each.checkVisibility())
  .map(each => each.outerHTML.replace(/\\s+/g, ' ').slice(0, 160))"""
UNREAD = """() => [...document.querySelectorAll('main table')]
  .filter(each => !each.closest('dialog, details:not([open])') && !each.checkVisibility())
  .map(each => each.ariaLabel ?? each.innerText.slice(0, 60))"""
DIALOGS = "[...document.querySelectorAll('dialog.g-dialog[id]')].map(each => each.id)"


@dataclass
class UnscriptedCrawl(Crawl):
    """Every list is read, every dialog opens at its own address, every form in sight has a button that sends it."""

    def visit(self, path: str, name: str) -> list[str]:
        is_new = None if FILES.search(path) else self.arrives(path, name)
        if is_new is None:
            return []
        links = self.links()
        if is_new:
            self.wide(path)
            self.read(path)
            for each in self.page.evaluate(DIALOGS):
                self.open(path, each)
        return links

    def read(self, what: str) -> None:
        for script, wrong in (
            (UNSENT, "cannot be sent"),
            (WAITING, "waits for a script"),
            (UNREAD, "cannot be read"),
        ):
            self.found += [f"{what}: {wrong}: {html}" for html in self.page.evaluate(script)]

    def open(self, path: str, name: str) -> None:
        self.page.goto(f"{self.address}{path}#{name}")
        if not self.page.locator(f"dialog[id='{name}']").is_visible():
            self.found.append(f"{path} #{name} does not open")
        self.read(f"{path} #{name}")
        self.dialogs += 1
