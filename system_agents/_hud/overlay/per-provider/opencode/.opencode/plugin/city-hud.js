// Adds the HUD sections that changed since the session started to each request to the model.
import { execFile } from "node:child_process"

const sections = new Map()

function changes(directory) {
  return new Promise((resolve) => {
    const options = { cwd: directory, timeout: 15000, maxBuffer: 1 << 20 }
    execFile("city", ["hud", "--inject", "--json"], options, (_error, stdout) => {
      try {
        resolve(JSON.parse(stdout).sections)
      } catch {
        resolve([]) // nothing changed
      }
    })
  })
}

export const CityHud = async ({ directory }) => {
  if (!process.env.CITY_SESSION_ID) return {} // a user's own opencode
  return {
    "experimental.chat.system.transform": async (_input, output) => {
      for (const section of await changes(directory)) sections.set(section.name, section.text)
      const texts = [...sections.values()].filter(Boolean)
      if (texts.length) output.system.push(["Current values:", ...texts].join("\n\n"))
    },
  }
}
