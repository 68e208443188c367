//! A strict reader of the Paje format: every event against the definition in the header, every name against what was defined
//! or created before it, every time against the one before it.

use std::collections::{BTreeMap, BTreeSet};

/// The fields of messages that the format does not know.
const OWN: [&str; 4] = ["Bytes", "Tag", "Context", "Operation"];

/// What a trace holds.
#[derive(Default)]
pub struct Trace {
    /// Name and parent of each container, by alias.
    pub containers: BTreeMap<String, (String, String)>,
    /// Values that states were set to, as (container's name, state type's name, value's name, time).
    pub states: Vec<(String, String, String, f64)>,
    /// Messages: names of the containers where they begin and end, and when.
    pub links: Vec<([String; 2], [f64; 2])>,
    /// Of each message, in the order in which they begin: the sender's name, and the fields of ours.
    pub messages: Vec<(String, BTreeMap<String, String>)>,
    /// Moments, by the value's name.
    pub moments: Vec<String>,
}

/// A name's definition: which of the define events, the type it belongs to, its name.
type Definition = (String, String, String);

#[derive(Default)]
struct Reader {
    /// Event name and fields (name, type) by number.
    events: BTreeMap<String, (String, Vec<(String, String)>)>,
    types: BTreeMap<String, Definition>,
    values: BTreeMap<String, (String, String)>,
    /// Type of each container that lives.
    living: BTreeMap<String, String>,
    open: BTreeMap<String, (String, String, f64)>,
    used: BTreeSet<String>,
    now: f64,
    trace: Trace,
}

/// Reads a trace.
///
/// # Panics
/// Where it breaks a rule, with the line.
pub fn read(text: &str) -> Trace {
    let mut reader = Reader::default();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next_if(|line| line.starts_with('%')) {
        let [name, number] = line.strip_prefix("%EventDef ").expect(line).split(' ').collect::<Vec<_>>()[..]
        else {
            panic!("{line}")
        };
        let mut fields = Vec::new();
        loop {
            let line = lines.next().expect("an end of the definition");
            if line == "%EndEventDef" {
                break;
            }
            let words: Vec<&str> = line.strip_prefix('%').expect(line).split_whitespace().collect();
            let [field, kind] = words[..] else { panic!("{line}") };
            assert!(["date", "int", "double", "hex", "string", "color"].contains(&kind), "{line}");
            fields.push((field.to_owned(), kind.to_owned()));
        }
        let before = reader.events.insert(number.to_owned(), (name.to_owned(), fields));
        assert!(before.is_none(), "event {number} is defined twice");
    }
    for line in lines {
        reader.event(line);
    }
    assert!(reader.living.is_empty(), "not destroyed: {:?}", reader.living);
    assert!(reader.open.is_empty(), "links without an end: {:?}", reader.open);
    reader.trace
}

fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in line.split('"').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    assert!(line.matches('"').count().is_multiple_of(2), "{line}");
    words
}

impl Reader {
    fn event(&mut self, line: &str) {
        let words = words(line);
        let (name, fields) =
            self.events.get(&words[0]).unwrap_or_else(|| panic!("no such event: {line}")).clone();
        assert_eq!(words.len(), fields.len() + 1, "{name}: {line}");
        let mut of = BTreeMap::new();
        for ((field, kind), word) in fields.iter().zip(&words[1..]) {
            match kind.as_str() {
                "date" => {
                    let time: f64 = word.parse().expect(line);
                    assert!(time >= self.now, "before the last event: {line}");
                    self.now = time;
                }
                "double" => assert!(word.parse::<f64>().is_ok(), "{line}"),
                "int" => assert!(word.parse::<i64>().is_ok(), "{line}"),
                "color" => {
                    let parts: Vec<f64> = word.split(' ').map(|part| part.parse().expect(line)).collect();
                    assert!(
                        parts.len() == 3 && parts.iter().all(|part| (0.0..=1.0).contains(part)),
                        "{line}"
                    );
                }
                _ => assert!(!word.is_empty(), "{line}"),
            }
            of.insert(field.as_str(), word.as_str());
        }
        self.checked(&name, &of, line);
    }

    fn checked(&mut self, name: &str, of: &BTreeMap<&str, &str>, line: &str) {
        if let Some(what) = name.strip_prefix("PajeDefine") {
            return self.define(what, of, line);
        }
        let kind = of["Type"];
        let (what, parent, type_name) =
            self.types.get(kind).unwrap_or_else(|| panic!("no such type: {line}")).clone();
        let expected = match name {
            "PajeCreateContainer" | "PajeDestroyContainer" => "ContainerType",
            "PajeSetState" => "StateType",
            "PajeNewEvent" => "EventType",
            "PajeSetVariable" => "VariableType",
            "PajeStartLink" | "PajeEndLink" => "LinkType",
            _ => panic!("not known to this reader: {line}"),
        };
        assert_eq!(what, expected, "{line}");
        match name {
            "PajeCreateContainer" => {
                let container = of["Container"];
                match self.living.get(container) {
                    Some(above) => assert_eq!(*above, parent, "{line}"),
                    None => assert!(container == "0" && parent == "0", "no such container: {line}"),
                }
                let alias = of["Alias"].to_owned();
                assert!(!self.trace.containers.contains_key(&alias), "created twice: {line}");
                let entry = (of["Name"].to_owned(), container.to_owned());
                self.trace.containers.insert(alias.clone(), entry);
                self.living.insert(alias, kind.to_owned());
            }
            "PajeDestroyContainer" => {
                assert_eq!(self.living.remove(of["Name"]).as_deref(), Some(kind), "{line}");
                let left = |alias: &&String| self.trace.containers[*alias].1 == of["Name"];
                assert_eq!(self.living.keys().find(left), None, "before what it contains: {line}");
            }
            _ => {
                let container = of["Container"];
                assert_eq!(self.living.get(container), Some(&parent), "{line}");
                if name == "PajeSetVariable" {
                    return;
                }
                let (value_of, value) =
                    self.values.get(of["Value"]).unwrap_or_else(|| panic!("no such value: {line}")).clone();
                assert_eq!(value_of, kind, "{line}");
                let called = |alias: &str| self.trace.containers[alias].0.clone();
                match name {
                    "PajeSetState" => {
                        let entry = (called(container), type_name, value, self.now);
                        self.trace.states.push(entry);
                    }
                    "PajeNewEvent" => self.trace.moments.push(value),
                    "PajeStartLink" => {
                        assert!(self.living.contains_key(of["StartContainer"]), "{line}");
                        let key = of["Key"].to_owned();
                        assert!(self.used.insert(key.clone()), "a key of another link: {line}");
                        let own = |(field, word): (&&str, &&str)| ((*field).to_owned(), (*word).to_owned());
                        let fields = of.iter().filter(|(field, _)| OWN.contains(field)).map(own).collect();
                        self.trace.messages.push((called(of["StartContainer"]), fields));
                        let entry = (called(of["StartContainer"]), value, self.now);
                        self.open.insert(key, entry);
                    }
                    _ => {
                        assert!(self.living.contains_key(of["EndContainer"]), "{line}");
                        let (from, begun_as, begun) =
                            self.open.remove(of["Key"]).unwrap_or_else(|| panic!("never begun: {line}"));
                        assert_eq!(begun_as, value, "{line}");
                        let entry = ([from, called(of["EndContainer"])], [begun, self.now]);
                        self.trace.links.push(entry);
                    }
                }
            }
        }
    }

    fn define(&mut self, what: &str, of: &BTreeMap<&str, &str>, line: &str) {
        let (alias, name) = (of["Alias"].to_owned(), of["Name"].to_owned());
        let kind = of["Type"];
        let is_container = |kind: &str| {
            kind == "0" || self.types.get(kind).is_some_and(|(what, ..)| what == "ContainerType")
        };
        let before = if what == "EntityValue" {
            assert!(self.types.get(kind).is_some_and(|(what, ..)| what != "ContainerType"), "{line}");
            self.values.insert(alias, (kind.to_owned(), name)).is_some()
        } else {
            assert!(is_container(kind), "{line}");
            for end in ["StartContainerType", "EndContainerType"] {
                assert!(of.get(end).is_none_or(|kind| is_container(kind)), "{line}");
            }
            self.types.insert(alias, (what.to_owned(), kind.to_owned(), name)).is_some()
        };
        assert!(!before, "defined twice: {line}");
    }
}
