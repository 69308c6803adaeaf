// Files outside of the book are linked by their paths in the repository, which only Markdown that is
// read there can follow. In the book they lead to the repository's page of that file.
const repository = "https://github.com/ferroce/ferroce/blob/main/";
for (const link of document.querySelectorAll('main a[href^="../../"]')) {
    const [path, heading] = link.getAttribute("href").slice("../../".length).split("#");
    link.href = repository + path.replace(/\.html$/, ".md") + (heading ? "#" + heading : "");
}
