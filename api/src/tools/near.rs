//! Names that nobody knows, and what was probably meant.

use serde_json::Value;

/// A member of an argument that no schema has.
#[derive(Debug, PartialEq, Eq)]
pub struct Unknown {
    /// What has it, as a JSON pointer below the arguments; empty for an argument itself.
    pub inside: String,
    /// Its name, cut at 64 characters.
    pub name: String,
    /// The names that are known there, in order.
    pub known: Vec<String>,
}

/// The first member of `value` that `schema` (subschemas inlined) does not have, where it is closed; deep ones included.
#[must_use]
pub fn unknown_member(schema: &Value, value: &Value) -> Option<Unknown> {
    find(schema, value, &mut String::new())
}

fn find(schema: &Value, value: &Value, inside: &mut String) -> Option<Unknown> {
    let schema = described(schema);
    match value {
        Value::Object(members) => {
            let known = schema["properties"].as_object();
            let closed = schema["additionalProperties"] == Value::Bool(false);
            for (name, value) in members {
                match known.and_then(|k| k.get(name)) {
                    Some(schema) => {
                        let found = below(inside, name, |inside| find(schema, value, inside));
                        if found.is_some() {
                            return found;
                        }
                    }
                    None if closed => {
                        return Some(Unknown {
                            inside: inside.clone(),
                            name: name.chars().take(64).collect(),
                            known: known
                                .into_iter()
                                .flatten()
                                .map(|(n, _)| n.clone())
                                .collect(),
                        });
                    }
                    None => {}
                }
            }
            None
        }
        Value::Array(values) => values.iter().enumerate().find_map(|(n, value)| {
            below(inside, &n.to_string(), |inside| {
                find(&schema["items"], value, inside)
            })
        }),
        _ => None,
    }
}

/// Of alternatives the one that describes an object or a list (the other is null); of several such ones none, for who can tell.
fn described(schema: &Value) -> &Value {
    let alternatives = ["anyOf", "oneOf"]
        .iter()
        .find_map(|m| schema[*m].as_array());
    let Some(alternatives) = alternatives else {
        return schema;
    };
    let mut structured = alternatives
        .iter()
        .filter(|s| s.get("properties").is_some() || s.get("items").is_some());
    match (structured.next(), structured.next()) {
        (Some(one), None) => one,
        _ => &Value::Null,
    }
}

fn below<T>(inside: &mut String, name: &str, work: impl FnOnce(&mut String) -> T) -> T {
    let before = inside.len();
    inside.push('/');
    inside.push_str(&name.replace('~', "~0").replace('/', "~1"));
    let result = work(inside);
    inside.truncate(before);
    result
}

/// `; did you mean …?`, where one of the known names is near; else nothing.
#[must_use]
pub fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    known
        .into_iter()
        .map(|known| (distance(known, name), known))
        .min()
        .filter(|(distance, known)| *distance <= 3 && *distance < known.len())
        .map_or(String::new(), |(_, known)| {
            format!("; did you mean `{known}`?")
        })
}

/// How many letters must change to make one word of the other (Levenshtein), for words that may be long: cut at 64 characters.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unknown_member_is_found_however_deep() {
        let inner = json!({"type": "object", "properties": {"rel": {"type": "string"}}, "additionalProperties": false});
        let schema = json!({"properties": {
            "item": {"anyOf": [{"properties": {"links": {"type": "array", "items": inner}, "extra": {"type": "object"}},
                "additionalProperties": false}, {"type": "null"}]},
        }, "additionalProperties": false});
        let found = |value| unknown_member(&schema, &value).map(|u| (u.inside, u.name, u.known));
        assert_eq!(
            found(json!({"item": {"links": [{"rel": "a"}], "extra": {"any": 1}}})),
            None
        );
        assert_eq!(found(json!({"item": null})), None);
        assert_eq!(
            found(json!({"item": {"links": [{"rel": "a"}, {"rle": "b"}]}})),
            Some(("/item/links/1".into(), "rle".into(), vec!["rel".into()]))
        );
        assert_eq!(
            found(json!({"itme": 1})),
            Some((String::new(), "itme".into(), vec!["item".into()]))
        );
    }

    #[test]
    fn a_hint_is_given_only_where_one_is_near() {
        assert_eq!(hint("nmae", ["kind", "name"]), "; did you mean `name`?");
        assert_eq!(hint("zzzzzzzzzzzz", ["kind", "name"]), "");
        assert_eq!(hint("zz", ["id"]), "");
        assert_eq!(hint("x", []), "");
    }
}
