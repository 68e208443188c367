//! Sizes as people write them.

/// Bytes in `text`: a number, optionally followed by `K`, `M` or `G` (powers of 1024).
///
/// ```
/// assert_eq!(tocsin_world::parse_size("64K"), Some(65536));
/// assert_eq!(tocsin_world::parse_size("1M"), Some(1 << 20));
/// assert_eq!(tocsin_world::parse_size("many"), None);
/// ```
pub fn parse_size(text: &str) -> Option<usize> {
    let text = text.trim();
    let (digits, factor) = match text.as_bytes().last()? {
        b'K' | b'k' => (text.get(..text.len() - 1)?, 1usize << 10),
        b'M' | b'm' => (text.get(..text.len() - 1)?, 1 << 20),
        b'G' | b'g' => (text.get(..text.len() - 1)?, 1 << 30),
        _ => (text, 1),
    };
    // `parse` would take a leading plus sign.
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<usize>().ok()?.checked_mul(factor)
}
