//! Licence expressions (SPDX): as much of them as crates use.

/// Whether a choice exists within `expression` that `allowed` accepts throughout. A `/` is the old spelling of OR; a
/// `WITH` exception is part of the licence's name. What cannot be read is not allowed.
pub fn allows(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut reader = Reader { words: spaced.split_whitespace().collect(), at: 0, allowed };
    let ok = reader.any();
    ok == Some(true) && reader.at == reader.words.len()
}

struct Reader<'a> {
    words: Vec<&'a str>,
    at: usize,
    allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Reader<'a> {
    fn next_is(&mut self, word: &str) -> bool {
        let is = self.words.get(self.at).is_some_and(|w| w.eq_ignore_ascii_case(word));
        self.at += usize::from(is);
        is
    }

    fn any(&mut self) -> Option<bool> {
        let mut ok = self.all()?;
        while self.next_is("OR") {
            ok |= self.all()?;
        }
        Some(ok)
    }

    fn all(&mut self) -> Option<bool> {
        let mut ok = self.one()?;
        while self.next_is("AND") {
            ok &= self.one()?;
        }
        Some(ok)
    }

    fn one(&mut self) -> Option<bool> {
        if self.next_is("(") {
            let ok = self.any()?;
            return self.next_is(")").then_some(ok);
        }
        let name: &'a str =
            self.words.get(self.at).copied().filter(|w| !["AND", "OR", "WITH", ")"].contains(w))?;
        self.at += 1;
        if self.next_is("WITH") {
            let exception = self.words.get(self.at).copied()?;
            self.at += 1;
            return Some((self.allowed)(&format!("{name} WITH {exception}")));
        }
        Some((self.allowed)(name))
    }
}

#[cfg(test)]
mod tests {
    use super::allows;

    #[test]
    fn expressions() {
        let mit = |name: &str| name == "MIT" || name == "Apache-2.0 WITH LLVM-exception";
        for yes in
            ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "(MIT OR X) AND MIT", "Apache-2.0 WITH LLVM-exception"]
        {
            assert!(allows(yes, &mit), "{yes}");
        }
        for no in
            ["", "GPL-3.0", "MIT AND GPL-3.0", "MIT OR", "(MIT", "MIT)", "Apache-2.0", "MIT X", "MIT WITH"]
        {
            assert!(!allows(no, &mit), "{no}");
        }
    }
}
