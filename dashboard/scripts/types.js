// Makes the types of the API from its OpenAPI document: `node scripts/types.js openapi.json src/generated/api.ts`.
// A small script in place of a package: the document uses few of the many things that OpenAPI has,
// and what this script does not know is an error, not `any`.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

const [source, target] = process.argv.slice(2);
const document = JSON.parse(readFileSync(source, "utf8"));

const nameOf = (ref) => ref.split("/").at(-1).replace(/[^A-Za-z0-9_]/g, "_");

function typeOf(schema) {
  if (schema === undefined || schema === true || Object.keys(schema).length === 0) return "unknown";
  if (schema.$ref) return nameOf(schema.$ref);
  for (const word of ["oneOf", "anyOf"]) if (schema[word]) return schema[word].map(typeOf).join(" | ");
  if (schema.allOf) return schema.allOf.map(typeOf).join(" & ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type })).join(" | ");
  switch (schema.type) {
    case "string": case "boolean": case "null": return schema.type;
    case "integer": case "number": return "number";
    case "array":
      if (schema.prefixItems) return `[${schema.prefixItems.map(typeOf).join(", ")}]`;
      return `(${typeOf(schema.items)})[]`;
    case "object": return schema.properties ? objectOf(schema) : `Record<string, ${typeOf(schema.additionalProperties)}>`;
    default: throw new Error(`scripts/types.js does not know ${JSON.stringify(schema)}`);
  }
}

function objectOf(schema) {
  const required = new Set(schema.required ?? []);
  const field = ([name, own]) => {
    const comment = own.description ? `  /** ${own.description.replace(/\*\//g, "* /").replace(/\s+/g, " ")} */\n` : "";
    return `${comment}  ${JSON.stringify(name)}${required.has(name) ? "" : "?"}: ${typeOf(own)};`;
  };
  return `{\n${Object.entries(schema.properties).map(field).join("\n")}\n}`;
}

const schemas = Object.entries(document.components.schemas).sort(([a], [b]) => (a < b ? -1 : 1));
const types = schemas.map(([name, schema]) => `export type ${nameOf(name)} = ${typeOf(schema)};\n`);
const paths = Object.keys(document.paths).map((path) => JSON.stringify(path)).join(" | ");
mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, `// Made by scripts/types.js from ${source}; do not edit.\n\n${types.join("\n")}\nexport type Path = ${paths};\n`);
