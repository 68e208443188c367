//! Loops that the compiler has to vectorise: those of reductions (ci/packed.txt).

use super::{Code, Function, Instruction};

/// A function has a loop for each place that its result may be in.
const FORMS: usize = 3;

/// How packed arithmetic of integers begins, and of floating-point numbers, which ends in `ps` or `pd`.
const INTEGERS: &[&str] = &["padd", "psub", "pmul", "pmin", "pmax", "pcmp", "pand", "por", "pxor"];
const FLOATS: &[&str] = &["add", "sub", "mul", "min", "max", "and", "or", "xor", "cmp"];

/// The file: beginnings of names, and what may be scalar.
pub(super) struct List<'a> {
    beginnings: Vec<&'a str>,
    scalar: Vec<&'a str>,
}

impl<'a> List<'a> {
    pub(super) fn parse(text: &'a str) -> Result<List<'a>, String> {
        let mut list = List { beginnings: Vec::new(), scalar: Vec::new() };
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
            match line.strip_prefix("scalar ") {
                Some(name) => list.scalar.push(name.trim()),
                None => list.beginnings.push(line),
            }
        }
        if list.beginnings.is_empty() {
            return Err("ci/packed.txt names no function".to_owned());
        }
        Ok(list)
    }
}

/// How many functions were looked at, and what is wrong with them.
pub(super) fn check(code: &Code<'_>, list: &List<'_>) -> (usize, Vec<String>) {
    let (mut looked_at, mut offences, mut met) = (0, Vec::new(), Vec::new());
    for beginning in &list.beginnings {
        let before = looked_at;
        for function in code.functions.values() {
            // What chooses among the functions stands one level above them.
            let Some(name) = function.name.strip_prefix(beginning).filter(|n| n.matches("::").count() == 1)
            else {
                continue;
            };
            looked_at += 1;
            let loops = packed_loops(function);
            let scalar = list.scalar.contains(&name);
            if scalar {
                met.push(name);
            }
            match loops {
                0..FORMS if !scalar => {
                    offences.push(format!("{}: {loops} of its {FORMS} loops are packed", function.name))
                }
                FORMS.. if scalar => offences
                    .push(format!("{}: is packed: no exception in ci/packed.txt any more", function.name)),
                _ => {}
            }
        }
        if looked_at == before {
            offences
                .push(format!("{beginning}: the binary has no such function; was it renamed or inlined?"));
        }
    }
    let gone = list.scalar.iter().filter(|name| !met.contains(name));
    offences.extend(gone.map(|name| format!("scalar {name}: the binary has no such function")));
    (looked_at, offences)
}

/// Loops without a loop inside that have packed arithmetic.
fn packed_loops(function: &Function<'_>) -> usize {
    let back = |i: &Instruction<'_>| {
        let target = i.target().filter(|_| i.name.starts_with('j'))?;
        (function.body.first()?.address <= target && target <= i.address).then_some((target, i.address))
    };
    let loops: Vec<(u64, u64)> = function.body.iter().filter_map(back).collect();
    let innermost = loops.iter().filter(|(from, to)| {
        !loops.iter().any(|(start, end)| (start, end) != (from, to) && from <= start && end <= to)
    });
    let packed = |(from, to): &&(u64, u64)| {
        function.body.iter().any(|i| (*from..=*to).contains(&i.address) && is_packed(i))
    };
    innermost.filter(packed).count()
}

/// Arithmetic on several elements at once; not what only moves them or sets a register to 0.
fn is_packed(instruction: &Instruction<'_>) -> bool {
    let name = instruction.name.strip_prefix('v').unwrap_or(instruction.name);
    let begins = |with: &[&str]| with.iter().any(|part| name.starts_with(part));
    let floats = (name.ends_with("ps") || name.ends_with("pd")) && begins(FLOATS);
    let mut operands = instruction.rest.split(',');
    let zero = name.contains("xor") && operands.next() == operands.next();
    (begins(INTEGERS) || floats) && !zero && instruction.rest.contains("mm")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three loops, of which the last has `last`; a loop around them; and what is no loop of theirs.
    fn code(name: &str, last: &str) -> String {
        format!(
            "
0000000000001000 <k::choose>:
    1000:\tret

0000000000002000 <{name}>:
    2000:\tpxor   %xmm0,%xmm0
    2004:\tmovdqu (%rdi),%xmm1
    2008:\tpaddd  %xmm0,%xmm1
    200c:\tjne    2004 <{name}+0x4>
    2010:\tpminub (%rdi),%xmm1
    2014:\tjne    2010 <{name}+0x10>
    2018:\t{last}
    201c:\tjne    2018 <{name}+0x18>
    2020:\tjb     2000 <{name}>
    2024:\tret
"
        )
    }

    fn offences(name: &str, last: &str, list: &str) -> Vec<String> {
        check(&Code::parse(&code(name, last), ""), &List::parse(list).expect("a list")).1
    }

    #[test]
    fn each_form_has_to_be_packed() {
        for packed in ["mulpd  %xmm1,%xmm0", "vpand  %ymm1,%ymm2,%ymm0", "pxor   %xmm1,%xmm0"] {
            assert_eq!(offences("k::i32::sum", packed, "k::"), Vec::<String>::new(), "{packed}");
        }
        for scalar in ["mulsd  %xmm1,%xmm0", "xorps  %xmm0,%xmm0", "movups %xmm0,(%rdi)", "pop    %rbx"] {
            assert!(offences("k::i32::sum", scalar, "k::")[0].contains("2 of its 3"), "{scalar}");
        }
    }

    #[test]
    fn exceptions_have_to_be_some() {
        let list = "# why\nscalar i32::sum\nk::";
        assert!(offences("k::i32::sum", "ret", list).is_empty());
        assert!(offences("k::i32::sum", "addps  %xmm1,%xmm0", list)[0].contains("any more"));
        assert!(offences("k::i32::max", "addps  %xmm1,%xmm0", list)[0].contains("scalar i32::sum"));
        assert!(offences("k::i32::sum", "ret", "gone::")[0].contains("no such function"));
        assert!(List::parse("scalar i32::sum").is_err());
    }
}
