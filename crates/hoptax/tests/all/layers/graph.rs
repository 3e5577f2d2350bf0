//! Reads from the source which files of a crate use which other files. This finds cycles between modules and
//! between files.
//!
//! A file uses another file if it names an item that is defined there. A re-export (`pub use`) does not count
//! as a use, because it only adds a second name. Code that is only for tests is left out.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::Visit;

/// The files of one crate, and the files that each of them uses.
pub(crate) struct Graph {
    /// Paths relative to `src`, without `.rs`.
    pub(crate) files: BTreeSet<String>,
    /// Maps each file to the files that it uses. Each used file is mapped to one path in the code that refers
    /// to it, as an example.
    pub(crate) uses: BTreeMap<String, BTreeMap<String, String>>,
}

impl Graph {
    /// Reads the crate that has its sources below `src`.
    pub(crate) fn read(src: &Path) -> Self {
        let mut modules = Modules { src: src.to_path_buf(), all: Vec::new() };
        let root = ["lib.rs", "main.rs"].map(|name| src.join(name)).into_iter().find(|path| path.is_file());
        modules.add_file(&root.expect("a crate has lib.rs or main.rs"), None);
        let mut graph = Self { files: BTreeSet::new(), uses: BTreeMap::new() };
        for index in 0..modules.all.len() {
            let module = &modules.all[index];
            graph.files.insert(module.file.clone());
            let mut names = Names { found: Vec::new() };
            for item in &module.code {
                names.visit_item(item);
            }
            for path in names.found.iter().chain(&module.imports) {
                let Some(file) = modules.file_of(index, path, 0) else { continue };
                if file != module.file {
                    graph
                        .uses
                        .entry(module.file.clone())
                        .or_default()
                        .entry(file)
                        .or_insert_with(|| path.join("::"));
                }
            }
        }
        graph
    }

    /// Groups of files that use each other in cycles.
    pub(crate) fn file_cycles(&self) -> Vec<BTreeSet<String>> {
        let edges = self.uses.iter().map(|(from, to)| (from.clone(), to.keys().cloned().collect())).collect();
        cycles(&edges)
    }

    /// Groups of the crate's top-level modules that use each other in cycles.
    pub(crate) fn module_cycles(&self) -> Vec<BTreeSet<String>> {
        let mut edges: Edges = BTreeMap::new();
        for (from, to) in &self.uses {
            edges
                .entry(top(from))
                .or_default()
                .extend(to.keys().map(|file| top(file)).filter(|to| *to != top(from)));
        }
        cycles(&edges)
    }
}

/// The top-level module of a file: `plan/meaning/load` belongs to `plan`.
fn top(file: &str) -> String {
    file.split('/').next().unwrap_or(file).to_owned()
}

type Edges = BTreeMap<String, BTreeSet<String>>;

/// Groups of more than one node (strongly connected components). Within a group, every node can be reached
/// from every other node.
fn cycles(edges: &Edges) -> Vec<BTreeSet<String>> {
    let reachable: BTreeMap<&String, BTreeSet<String>> =
        edges.keys().map(|from| (from, reached_from(edges, from))).collect();
    let mut groups: Vec<BTreeSet<String>> = Vec::new();
    for (from, reached) in &reachable {
        let back = |to: &&String| reachable.get(to).is_some_and(|others| others.contains(*from));
        let group: BTreeSet<String> = reached.iter().filter(back).cloned().collect();
        if group.len() > 1 && !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

fn reached_from(edges: &Edges, from: &String) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut to_visit = vec![from];
    while let Some(node) = to_visit.pop() {
        for next in edges.get(node).into_iter().flatten() {
            if reached.insert(next.clone()) {
                to_visit.push(next);
            }
        }
    }
    reached
}

/// What a name in a module refers to.
enum Entry {
    /// Something defined in this module.
    Item,
    /// A child module, by its index.
    Child(usize),
    /// Another name for this path.
    Alias(Vec<String>),
}

struct Module {
    /// Index of the parent module.
    parent: Option<usize>,
    /// Path relative to `src`, without `.rs`.
    file: String,
    names: BTreeMap<String, Entry>,
    /// Paths of modules that this module imports with `*`. All their names are visible in this module too.
    globs: Vec<Vec<String>>,
    /// Paths of private `use` items.
    imports: Vec<Vec<String>>,
    /// All items of the module except modules and `use`.
    code: Vec<syn::Item>,
}

struct Modules {
    src: PathBuf,
    all: Vec<Module>,
}

impl Modules {
    fn add_file(&mut self, file: &Path, parent: Option<usize>) -> usize {
        let text =
            std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.add(parsed.items, file, parent)
    }

    fn add(&mut self, items: Vec<syn::Item>, file: &Path, parent: Option<usize>) -> usize {
        let index = self.all.len();
        let name = file.strip_prefix(&self.src).expect("below src").with_extension("").display().to_string();
        self.all.push(Module {
            parent,
            file: name,
            names: BTreeMap::new(),
            globs: Vec::new(),
            imports: Vec::new(),
            code: Vec::new(),
        });
        for item in items {
            if is_for_tests(attributes(&item)) {
                continue;
            }
            match item {
                syn::Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let child = match module.content {
                        Some((_, items)) => self.add(items, file, Some(index)),
                        None => self.add_file(&child_file(file, &name), Some(index)),
                    };
                    self.all[index].names.insert(name, Entry::Child(child));
                }
                syn::Item::Use(item) => {
                    let is_private = matches!(item.vis, syn::Visibility::Inherited);
                    let mut leaves = Vec::new();
                    use_leaves(&item.tree, &mut Vec::new(), &mut leaves);
                    for (path, name) in leaves {
                        let module = &mut self.all[index];
                        if is_private {
                            module.imports.push(path.clone());
                        }
                        match name {
                            Some(name) => drop(module.names.insert(name, Entry::Alias(path))),
                            None => module.globs.push(path),
                        }
                    }
                }
                other => {
                    if let Some(name) = defined(&other) {
                        self.all[index].names.insert(name, Entry::Item);
                    }
                    self.all[index].code.push(other);
                }
            }
        }
        index
    }

    /// The file that defines the item `path`, as seen from the module `from`. `None` if another crate defines
    /// the item.
    fn file_of(&self, from: usize, path: &[String], depth: usize) -> Option<String> {
        // Globs that refer to each other would make this recursion endless, so its depth is limited. Real
        // chains of aliases are shorter than the limit.
        if depth > 12 {
            return None;
        }
        let mut module = from;
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (module, rest) = (0, &path[1..]),
            "self" => rest = &path[1..],
            "super" => (),
            first if !self.sees(from, first) => return None,
            _ => (),
        }
        while let Some((first, further)) = rest.split_first() {
            if first == "super" {
                module = self.all[module].parent?;
                rest = further;
                continue;
            }
            match self.all[module].names.get(first) {
                Some(Entry::Child(child)) => (module, rest) = (*child, further),
                Some(Entry::Item) => return Some(self.all[module].file.clone()),
                Some(Entry::Alias(target)) => {
                    let whole: Vec<String> = target.iter().chain(further).cloned().collect();
                    return self.file_of(module, &whole, depth + 1);
                }
                None => {
                    return self.all[module].globs.iter().find_map(|glob| {
                        let whole: Vec<String> = glob.iter().chain(rest).cloned().collect();
                        self.file_of(module, &whole, depth + 1)
                    });
                }
            }
        }
        Some(self.all[module].file.clone())
    }

    fn sees(&self, module: usize, name: &str) -> bool {
        self.all[module].names.contains_key(name) || !self.all[module].globs.is_empty()
    }
}

/// The file of `mod name;` in `file`.
fn child_file(file: &Path, name: &str) -> PathBuf {
    let folder = file.parent().expect("a file is in a directory");
    let stem = file.file_stem().and_then(|stem| stem.to_str()).expect("a name");
    let folder = match stem {
        "mod" | "lib" | "main" => folder.to_path_buf(),
        _ => folder.join(stem),
    };
    let flat = folder.join(format!("{name}.rs"));
    if flat.is_file() { flat } else { folder.join(name).join("mod.rs") }
}

/// Each name that a `use` imports, with its path. For `*` there is a path without a name.
fn use_leaves(
    tree: &syn::UseTree,
    prefix: &mut Vec<String>,
    leaves: &mut Vec<(Vec<String>, Option<String>)>,
) {
    match tree {
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            use_leaves(&path.tree, prefix, leaves);
            prefix.pop();
        }
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| use_leaves(tree, prefix, leaves)),
        syn::UseTree::Glob(_) => leaves.push((prefix.clone(), None)),
        syn::UseTree::Name(name) if name.ident == "self" => {
            leaves.push((prefix.clone(), prefix.last().cloned()));
        }
        syn::UseTree::Name(name) => {
            let path = prefix.iter().cloned().chain([name.ident.to_string()]).collect();
            leaves.push((path, Some(name.ident.to_string())));
        }
        syn::UseTree::Rename(rename) => {
            let path = prefix.iter().cloned().chain([rename.ident.to_string()]).collect();
            leaves.push((path, Some(rename.rename.to_string())));
        }
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether the item is only for tests, for example because of `#[cfg(test)]`.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let words = list.tokens.to_string();
        words.contains("test") && !words.contains("not")
    })
}

fn defined(item: &syn::Item) -> Option<String> {
    let ident = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Every path that occurs in some code.
struct Names {
    found: Vec<Vec<String>>,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.found.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    // Skips `pub(crate)` and the like, because they name no item.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, macro_: &'ast syn::Macro) {
        self.found.push(macro_.path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        self.tokens(macro_.tokens.clone());
    }

    // Skips test functions in files that also have other code.
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_for_tests(attributes(item)) {
            syn::visit::visit_item(self, item);
        }
    }

    // Handles a `use` inside a function.
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut leaves = Vec::new();
        use_leaves(&item.tree, &mut Vec::new(), &mut leaves);
        self.found.extend(leaves.into_iter().map(|(path, _)| path));
    }
}

impl Names {
    /// Collects paths from the arguments of a macro. A path is a group of words joined by `::`, or a single
    /// word that begins with a capital letter.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.end_of(&mut path);
                    }
                    path.push(word.to_string());
                    colons = 0;
                }
                TokenTree::Punct(sign) if sign.as_char() == ':' => colons += 1,
                other => {
                    self.end_of(&mut path);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.end_of(&mut path);
    }

    fn end_of(&mut self, path: &mut Vec<String>) {
        let is_name = |word: &String| word.starts_with(char::is_uppercase);
        if path.len() > 1 || path.first().is_some_and(is_name) {
            self.found.push(std::mem::take(path));
        }
        path.clear();
    }
}
