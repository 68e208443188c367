//! What the README says of the environment is what the library reads.

use std::path::Path;

use tocsin_world::VARIABLES;

#[test]
fn its_table_of_variables_is_the_librarys() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = std::fs::read_to_string(path).expect("the README can be read");
    let printed: Vec<&str> = text.lines().filter(|line| line.starts_with("| `TOCSIN_")).collect();
    let right: Vec<String> = VARIABLES
        .iter()
        .filter(|v| !v.internal)
        .map(|v| format!("| `{}` | {} | {} | {} |", v.name, v.values, v.default, v.meaning))
        .collect();
    assert_eq!(printed, right, "the table should be:\n{}", right.join("\n"));
}
