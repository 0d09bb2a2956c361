import "@fontsource-variable/inter/wght.css";
import "./styles/tabler.scss";
import "./styles/index.css";
import favicon from "./favicon.svg?url&no-inline";
import sprite from "./sprite.svg?url&no-inline";
import htmx from "htmx.org";
import { startAnswers } from "./answers";
import { startCharts } from "./charts";
import { startControls } from "./controls";
import { startCopy } from "./copy";
import { startFocus } from "./focus";
import { startInline } from "./inline";
import { startKeyboard } from "./keyboard";
import { startLive } from "./live";
import { startMatrix } from "./matrix";
import { startOutage } from "./outage";
import { startOverlays } from "./overlays";
import { startPalette } from "./palette";
import { startPresses } from "./presses";
import { startSession } from "./session";
import { startTail } from "./tail";
import { startTheme } from "./theme";
import { startToasts } from "./toasts";

// The page's own markup is the only script it trusts: no eval, no styles or scripts that arrive in a fragment.
Object.assign(htmx.config, { includeIndicatorStyles: false, allowEval: false, allowScriptTags: false });

startTheme();
startSession();
startOutage();
startPresses();
startOverlays();
startToasts();
startCopy();
startControls();
startAnswers();
startPalette();
startKeyboard();
startCharts();
startLive();
startTail();
startMatrix();
startInline();
startFocus();
// Last, when the page answers to keys. Both files are named here so that they are built and stand in the manifest, where
// templates look for them.
document.documentElement.dataset["assets"] = `${sprite} ${favicon}`.length ? "ready" : "";
