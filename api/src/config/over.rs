//! One variable of the environment, laid over the file.

/// Puts a value at `key`, whose parts are separated by `__`.
///
/// # Errors
/// In words: a part of the key is no table.
pub(super) fn lay_over(table: &mut toml::Table, key: &str, value: &str) -> Result<(), String> {
    let (inner, last) = match key.rsplit_once("__") {
        None => (table, key),
        Some((path, last)) => {
            let mut inner = table;
            for part in path.split("__") {
                let entry = inner
                    .entry(part)
                    .or_insert_with(|| toml::Value::Table(toml::Table::new()));
                inner = entry
                    .as_table_mut()
                    .ok_or_else(|| format!("`{part}` is no table"))?;
            }
            (inner, last)
        }
    };
    // Numbers, truth values and lists as TOML writes them; everything else is a string, without quotes.
    let parsed = format!("v = {value}")
        .parse::<toml::Table>()
        .ok()
        .and_then(|mut t| t.remove("v"));
    let parsed = match parsed {
        Some(v @ (toml::Value::Integer(_) | toml::Value::Boolean(_) | toml::Value::Array(_))) => v,
        _ => toml::Value::String(value.into()),
    };
    inner.insert(last.into(), parsed);
    Ok(())
}
