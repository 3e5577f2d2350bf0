//! Names of container images.

/// Checks that `image` can be the name of a container image. A name must not look like an option of a
/// command, and must not contain characters that a shell would interpret.
///
/// # Errors
/// If the name is not valid. The error says how to fix it.
pub fn check_image(image: &str) -> Result<(), String> {
    let first = image.chars().next().is_some_and(|first| first.is_ascii_alphanumeric());
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@".contains(letter);
    if first && image.chars().all(allowed) && image.len() <= 255 {
        return Ok(());
    }
    Err("write name:tag, registry/name:tag or name@sha256:…".to_owned())
}

#[cfg(test)]
mod tests {
    use super::check_image;

    #[test]
    fn options_and_other_text_are_not_images() {
        for good in ["nginx", "nginx:1.27", "docker.io/library/nginx:1.27-alpine", "a@sha256:00ff"] {
            assert_eq!(check_image(good), Ok(()), "{good}");
        }
        for wrong in ["", "--privileged", "nginx latest", "nginx;id", "$(id)"] {
            assert!(check_image(wrong).is_err(), "{wrong}");
        }
    }
}
