//! Formats of traces.

use std::path::Path;

/// The format of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceFormat {
    /// By the end of the file's name: Paje for `.paje` and `.trace`, else Chrome's.
    #[default]
    Auto,
    /// Chrome trace JSON, for ui.perfetto.dev.
    Chrome,
    /// Paje, for ViTE and pj_dump.
    Paje,
    /// What this library's launcher asks of its ranks, for itself to read.
    #[doc(hidden)]
    Part,
}

impl TraceFormat {
    /// Whether a file of that name is to be Paje.
    pub fn is_paje(self, path: &Path) -> bool {
        let by_name = || path.extension().is_some_and(|end| end == "paje" || end == "trace");
        self == TraceFormat::Paje || self == TraceFormat::Auto && by_name()
    }

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            TraceFormat::Auto => "auto",
            TraceFormat::Chrome => "chrome",
            TraceFormat::Paje => "paje",
            TraceFormat::Part => "part",
        }
    }

    pub(super) fn find(name: &str) -> Option<TraceFormat> {
        let all = [TraceFormat::Auto, TraceFormat::Chrome, TraceFormat::Paje, TraceFormat::Part];
        all.into_iter().find(|format| format.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides_unless_told() {
        for (name, paje) in [("a.paje", true), ("b.trace", true), ("c.json", false), ("paje", false)] {
            assert_eq!(TraceFormat::Auto.is_paje(Path::new(name)), paje, "{name}");
            assert!(TraceFormat::Paje.is_paje(Path::new(name)));
            assert!(!TraceFormat::Chrome.is_paje(Path::new(name)));
        }
    }
}
