"""A validator for the JSON Schema of the JSON report. It is stricter than the schema: it accepts no further members."""

import json

from kept import ROOT

from hoptax.result import SCHEMA

FILE = ROOT / f"docs/reference/report-{SCHEMA}.schema.json"
DOCUMENT = json.loads(FILE.read_text(encoding="utf-8"))
TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
    "number": (int, float),
}
KNOWN = {
    "$schema", "$defs", "$ref", "title", "description", "type", "properties", "required", "items", "additionalProperties",
    "propertyNames", "enum", "const", "anyOf", "minimum", "minItems", "maxItems",
}


def faults(value, schema, path="$"):
    """Where a value does not match the schema. Members that the schema does not describe are faults too."""
    assert set(schema) <= KNOWN, f"{path}: this validator does not know {set(schema) - KNOWN}"
    if "$ref" in schema:
        yield from faults(value, DOCUMENT["$defs"][schema["$ref"].rpartition("/")[2]], path)
    if "anyOf" in schema:
        tried = [list(faults(value, each, path)) for each in schema["anyOf"]]
        if all(tried):
            yield from max(tried, key=len)
    types = schema.get("type", list(TYPES))
    types = [types] if isinstance(types, str) else types
    if not any(isinstance(value, TYPES[each]) and (each == "boolean" or not isinstance(value, bool)) for each in types):
        yield f"{path}: {value!r} is not {types}"
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        yield f"{path}: {value!r} is not allowed"
    if isinstance(value, (int, float)) and value < schema.get("minimum", value):
        yield f"{path}: {value} is too small"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{path}: {len(value)} items"
        for index, each in enumerate(value):
            yield from faults(each, schema.get("items", {}), f"{path}[{index}]")
    if isinstance(value, dict) and ("properties" in schema or "additionalProperties" in schema):
        yield from (f"{path}: no {name}" for name in schema.get("required", []) if name not in value)
        for name, each in value.items():
            yield from faults(name, schema.get("propertyNames", {}), f"{path}.{name} (name)")
            described = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if described is None:
                yield f"{path}.{name} is not described"
            else:
                yield from faults(each, described, f"{path}.{name}")
