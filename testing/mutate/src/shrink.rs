//! Shrinks a failing input.

/// Maximum total bytes decoded while shrinking: seconds for a slow decoder, enough for inputs of some kilobytes.
const BYTES: usize = 16 << 20;

/// Removes ranges that are not needed for the failure.
pub(crate) fn shrink(input: &[u8], fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut small = input.to_vec();
    let mut length = small.len().div_ceil(2);
    let mut bytes_left = BYTES;
    while length > 0 && bytes_left > 0 {
        let before = small.len();
        let mut at = 0;
        while at < small.len() && bytes_left > 0 {
            bytes_left = bytes_left.saturating_sub(small.len());
            let end = small.len().min(at + length);
            let less = [&small[..at], &small[end..]].concat();
            if fails(&less) {
                small = less;
            } else {
                at = end;
            }
        }
        // Earlier ranges may have become unnecessary.
        if length > 1 || small.len() == before {
            length /= 2;
        }
    }
    small
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_goes() {
        let input: Vec<u8> = (0..=255).collect();
        let fails = |input: &[u8]| input.contains(&7) && input.contains(&200);
        assert_eq!(shrink(&input, fails), [7, 200]);
    }
}
