//! A tree of files as a list of paths, parents before children.

/// An entry of the tree.
pub(super) enum Node {
    File(Vec<u8>),
    Link(String),
    Directory,
}

/// Paths, relative to the directory that stands for `/`, and their entries.
#[derive(Default)]
pub(super) struct Tree(Vec<(String, Node)>);

impl Tree {
    /// Returns the entries in their order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.0.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// Adds a file with a line of text.
    pub(super) fn file(&mut self, path: String, text: &str) {
        self.bytes(path, format!("{text}\n").into());
    }

    /// Adds a file.
    pub(super) fn bytes(&mut self, path: String, bytes: Vec<u8>) {
        self.0.push((path, Node::File(bytes)));
    }

    /// Adds an empty directory.
    pub(super) fn directory(&mut self, path: String) {
        self.0.push((path, Node::Directory));
    }

    /// Adds a link to a path of the machine.
    pub(super) fn link_outside(&mut self, path: String, target: String) {
        self.0.push((path, Node::Link(target)));
    }

    /// Adds a link to a path of the tree. It is relative, so the tree may be anywhere; programs
    /// read the name of a device from its end, so it ends with a name as in the kernel's tree.
    pub(super) fn link(&mut self, path: String, target: &str) {
        let (from, to): (Vec<_>, Vec<_>) = (path.split('/').collect(), target.split('/').collect());
        let (above, below) = (from.len() - 1, to.len() - 1);
        let same = from[..above].iter().zip(&to[..below]);
        let shared = same.take_while(|(from, to)| from == to).count();
        let relative = [vec![".."; above - shared], to[shared..].to_vec()].concat();
        self.0.push((path, Node::Link(relative.join("/"))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative_and_end_with_a_name() {
        for (path, target, expected) in [
            ("sys/class/x/y0", "sys/devices/p/y0", "../../devices/p/y0"),
            ("sys/devices/p/x/y0/device", "sys/devices/p", "../../../p"),
            ("a", "b", "b"),
        ] {
            let mut tree = Tree::default();
            tree.link(path.into(), target);
            let node = tree.entries().next().map(|(_, node)| node);
            assert!(
                matches!(node, Some(Node::Link(link)) if link == expected),
                "{path}"
            );
        }
    }
}
