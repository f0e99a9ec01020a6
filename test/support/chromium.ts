import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

/** Where a Chromium that a person or a distribution installed is found, in this order after CHROMIUM_PATH. */
const places = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/usr/bin/google-chrome-stable',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
];

export const whatToInstall =
  'No Chromium was found: install it (Debian: apt-get install chromium; macOS: brew install --cask chromium), or set CHROMIUM_PATH to one.';

/** Undefined when there is none. */
export function chromiumPath(): string | undefined {
  const named = process.env.CHROMIUM_PATH;
  return named || places.find((place) => existsSync(place));
}

/** A Chromium without a window that talks to nobody by itself. @throws Error with what to install */
export async function launchChromium(): Promise<Browser> {
  const executablePath = chromiumPath();
  if (executablePath === undefined) throw new Error(whatToInstall);
  // Chromium's sandbox does not start as root, as which containers run.
  const isRoot = process.getuid?.() === 0;
  return chromium.launch({
    executablePath,
    args: [
      ...(isRoot ? ['--no-sandbox'] : []),
      '--disable-gpu',
      '--disable-lcd-text',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}
