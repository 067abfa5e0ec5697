//! The encoding of a file.

use super::STDIN_NAME;

/// Files of other formats by their first bytes, and the command that unpacks them.
const PACKED: [(&[u8], &str, &str); 5] = [
    (b"\x1f\x8b", "a gzip file", "gunzip -c"),
    (b"BZh", "a bzip2 file", "bunzip2 -c"),
    (b"\xfd7zXZ\0", "an xz file", "xz -dc"),
    (b"\x28\xb5\x2f\xfd", "a zstd file", "zstd -dc"),
    (b"PK\x03\x04", "a zip file", "unzip -p"),
];

/// The position of the magic of a tar archive.
const TAR_AT: usize = 257;

/// The text of a file in UTF-8 or UTF-16. Windows PowerShell writes UTF-16.
///
/// # Errors
/// The message starts after the name of the file.
pub(super) fn decode(name: &str, bytes: Vec<u8>) -> Result<String, String> {
    let tar =
        bytes.get(TAR_AT..).is_some_and(|rest| rest.starts_with(b"ustar")).then_some(("a tar archive", "tar -xOf"));
    let packed = PACKED.iter().find(|(start, ..)| bytes.starts_with(start));
    if let Some((what, command)) = packed.map(|(_, what, command)| (*what, *command)).or(tar) {
        return Err(match name {
            STDIN_NAME => {
                format!(": this is {what}; unpack it before, such as with `{command} FILE | flotilla ... -f -`")
            }
            _ => format!(": this is {what}; unpack it, such as with `{command} {name} | flotilla ... -f -`"),
        });
    }
    let text = match bytes.as_slice() {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => {
            return Err(": this is UTF-32 text; expected YAML or JSON in UTF-8 or UTF-16".to_owned());
        }
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        // YAML and JSON begin with a character of ASCII.
        [first, 0, ..] if *first != 0 => utf16(&bytes, u16::from_le_bytes),
        [0, second, ..] if *second != 0 => utf16(&bytes, u16::from_be_bytes),
        _ => return utf8(bytes),
    };
    text.ok_or_else(|| ": this is not valid UTF-16 text; save the file as UTF-8".to_owned())
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (units, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = units.iter().map(|bytes| unit(*bytes)).collect();
    String::from_utf16(&units).ok().filter(|_| rest.is_empty())
}

fn utf8(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(error.as_bytes().get(..valid).unwrap_or_default());
        let (line, column) = (before.matches('\n').count() + 1, before.rsplit('\n').next().unwrap_or_default());
        let column = column.trim_start_matches('\u{feff}').chars().count() + 1;
        format!(
            ":{line}:{column}: this is neither UTF-8 nor UTF-16 text; expected YAML or JSON, so save the file as UTF-8"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str, of: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(of).collect()
    }

    #[test]
    fn texts_are_utf_8_or_utf_16_with_or_without_a_mark() {
        let text = "kind: Pod # \u{e9}\u{1f600}\n";
        let cases = [
            text.as_bytes().to_vec(),
            wide(&format!("\u{feff}{text}"), u16::to_le_bytes),
            wide(&format!("\u{feff}{text}"), u16::to_be_bytes),
            wide(text, u16::to_le_bytes),
            wide(text, u16::to_be_bytes),
        ];
        for (number, bytes) in cases.into_iter().enumerate() {
            assert_eq!(decode("f", bytes).as_deref(), Ok(text), "case {number}");
        }
        assert_eq!(decode("f", Vec::new()).as_deref(), Ok(""));
    }

    #[test]
    fn other_files_are_errors_with_the_next_step() {
        let cases: [(&[u8], &str); 6] = [
            (b"\x1f\x8b\x08", ": this is a gzip file; unpack it, such as with `gunzip -c f | flotilla ... -f -`"),
            (b"PK\x03\x04", ": this is a zip file; unpack it, such as with `unzip -p f | flotilla ... -f -`"),
            (b"\xff\xfe\0\0a\0\0\0", ": this is UTF-32 text; expected YAML or JSON in UTF-8 or UTF-16"),
            (b"\xff\xfea", ": this is not valid UTF-16 text; save the file as UTF-8"),
            (b"\xff\xfe\x00\xd8", ": this is not valid UTF-16 text; save the file as UTF-8"),
            (
                b"\xef\xbb\xbfa: 1\nb: \xff\xfe",
                ":2:4: this is neither UTF-8 nor UTF-16 text; expected YAML or JSON, so save the file as UTF-8",
            ),
        ];
        for (bytes, expected) in cases {
            assert_eq!(decode("f", bytes.to_vec()), Err(expected.to_owned()));
        }
    }
}
