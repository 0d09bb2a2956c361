import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  publicDir: false,
  // Tabler is written with @import; its deprecation is not ours to answer.
  css: {
    preprocessorOptions: {
      scss: {
        quietDeps: true,
        silenceDeprecations: ["import", "global-builtin", "color-functions", "if-function"],
      },
    },
  },
  build: {
    outDir: "static/frontend",
    emptyOutDir: true,
    manifest: "manifest.json",
    // An inlined asset is a data: URL, which the content security policy refuses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    // Lower targets would turn light-dark() into a theme that ignores our switch.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    reportCompressedSize: false,
    rollupOptions: { input: ["src/main.ts"] },
  },
});
