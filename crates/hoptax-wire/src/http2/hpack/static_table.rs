//! The static table (RFC 7541, appendix A).

/// The entries. The first has index 1.
pub(super) const ENTRIES: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Index of the entry with this name and value, and index of the first entry with this name.
pub(super) fn find(name: &str, value: &str) -> (Option<u32>, Option<u32>) {
    let place = |found: Option<usize>| found.map(|place| place as u32 + 1);
    let whole = ENTRIES.iter().position(|entry| *entry == (name, value));
    (place(whole), place(ENTRIES.iter().position(|entry| entry.0 == name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_at_their_index() {
        for (index, entry) in [
            (1, (":authority", "")),
            (2, (":method", "GET")),
            (8, (":status", "200")),
            (15, ("accept-charset", "")),
            (28, ("content-length", "")),
            (54, ("server", "")),
            (61, ("www-authenticate", "")),
        ] {
            assert_eq!(ENTRIES[index - 1], entry);
        }
    }

    #[test]
    fn entries_are_found() {
        assert_eq!(find(":method", "POST"), (Some(3), Some(2)));
        assert_eq!(find(":method", "PUT"), (None, Some(2)));
        assert_eq!(find("x-mine", ""), (None, None));
    }
}
