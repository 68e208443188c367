//! Rows: one per measured combination, as JSON lines or as a table.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;
use std::io::{self, Write};
use tocsin_world::say;

/// One row. Keys keep the order they were set in.
#[derive(Clone, Debug, Default)]
pub struct Row(Vec<(&'static str, Value)>);

impl Row {
    /// A row of a bench.
    pub fn new(bench: &'static str) -> Row {
        Row::default().set("bench", bench)
    }

    /// Sets a key; `null` (an absent `Option`) leaves it out.
    #[must_use]
    pub fn set(mut self, key: &'static str, value: impl Into<Value>) -> Row {
        let value = value.into();
        if !value.is_null() {
            self.0.retain(|(known, _)| *known != key);
            self.0.push((key, value));
        }
        self
    }

    /// Sets a measured number, rounded to six significant digits: more would be noise. Not-a-number is left out.
    #[must_use]
    pub fn number(self, key: &'static str, value: f64) -> Row {
        if !value.is_finite() {
            return self;
        }
        self.set(key, rounded(value))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// The value of a key as a number.
    pub fn as_number(&self, key: &str) -> Option<f64> {
        self.get(key)?.as_f64()
    }

    /// The value of a key as text.
    pub fn as_text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// A number to six significant digits.
pub(crate) fn rounded(value: f64) -> f64 {
    let scale = 10f64.powi(5 - value.abs().max(1e-9).log10().floor() as i32);
    (value * scale).round() / scale
}

/// Where rows go: standard output.
pub struct Sink {
    json: bool,
    header: Vec<(&'static str, usize)>,
}

impl Sink {
    /// JSON lines or a table for people.
    pub fn new(json: bool) -> Sink {
        Sink { json, header: Vec::new() }
    }

    /// Writes a row at once. A closed pipe (`| head`) ends the process quietly.
    pub fn row(&mut self, row: &Row) {
        let mut text = String::new();
        if self.json {
            text = serde_json::to_string(row).unwrap_or_default();
            text.push('\n');
        } else {
            let cells: Vec<(&'static str, String)> = row.0.iter().map(|(k, v)| (*k, cell(v))).collect();
            // A row that lacks some of the header's keys leaves those places empty.
            let fits = cells.iter().all(|(key, _)| self.header.iter().any(|(known, _)| known == key));
            if !fits {
                if !self.header.is_empty() {
                    text.push('\n');
                }
                self.header = cells.iter().map(|(k, v)| (*k, k.len().max(v.len()).max(6))).collect();
                for (key, width) in &self.header {
                    text += &format!("{key:>width$}  ");
                }
                text = text.trim_end().to_owned() + "\n";
            }
            for (key, width) in &self.header {
                let value = cells.iter().find(|(known, _)| known == key).map_or("", |(_, value)| value);
                text += &format!("{value:>width$}  ");
            }
            text = text.trim_end().to_owned() + "\n";
        }
        print(&text);
    }
}

/// Writes to standard output; a reader that went away ends the process as a broken pipe does, quietly, and what else is wrong with it does so
/// with a word.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    if let Err(why) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        if why.kind() != io::ErrorKind::BrokenPipe {
            say(format_args!("tocsin: writing to standard output: {why}"));
        }
        std::process::exit(1);
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => {
            let n = n.as_f64().unwrap_or(f64::NAN);
            match n.abs() {
                a if a >= 1000.0 => format!("{n:.0}"),
                a if a >= 10.0 => format!("{n:.1}"),
                _ => format!("{n:.3}"),
            }
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_drops_what_is_unknown() {
        let row = Row::new("latency")
            .set("backend", "signal")
            .set("lmt", None::<String>)
            .number("mean_ns", 1_234.567_89)
            .number("std_ns", f64::NAN)
            .set("rounds", 5);
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"bench":"latency","backend":"signal","mean_ns":1234.57,"rounds":5}"#
        );
    }

    #[test]
    fn small_and_zero_numbers() {
        assert_eq!(Row::default().number("a", 0.0).as_number("a"), Some(0.0));
        assert_eq!(Row::default().number("a", -0.001_234_567_8).as_number("a"), Some(-0.001_234_57));
    }
}
