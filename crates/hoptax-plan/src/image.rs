//! Names of container images.

/// Whether `image` can be the name of an image: no option, nothing that a shell or docker would read as something else.
///
/// # Errors
/// How to mend it.
pub fn check_image(image: &str) -> Result<(), String> {
    let first = image.chars().next().is_some_and(|first| first.is_ascii_alphanumeric());
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@".contains(letter);
    if first && image.chars().all(allowed) && image.len() <= 255 {
        return Ok(());
    }
    Err("write it as docker does: name:tag, registry/name:tag or name@sha256:…".to_owned())
}

#[cfg(test)]
mod tests {
    use super::check_image;

    #[test]
    fn images_are_told_from_options_and_other_text() {
        for good in ["nginx", "nginx:1.27", "docker.io/library/nginx:1.27-alpine", "a@sha256:00ff"] {
            assert_eq!(check_image(good), Ok(()), "{good}");
        }
        for wrong in ["", "--privileged", "nginx latest", "nginx;id", "$(id)"] {
            assert!(check_image(wrong).is_err(), "{wrong}");
        }
    }
}
