"""Serves the built files of the front end. They are named by their content, so that a browser requests each of them
once."""

import re

from whitenoise.middleware import WhiteNoiseMiddleware

YEAR = 365 * 24 * 60 * 60
# as Vite writes them: assets/main-DhQvvsD7.js
HASHED = re.compile(r"frontend/assets/.+-[\w-]{8}\.\w+")


class AssetsMiddleware(WhiteNoiseMiddleware):
    """Compressed if there is a .br or .gz beside the file; `npm run build` and collectstatic create them."""

    FOREVER = YEAR

    def immutable_file_test(self, path: str, url: str) -> bool:
        del path
        return bool(HASHED.fullmatch(url.removeprefix(self.static_prefix)))
