const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS = new Set(['svg', 'path', 'line', 'rect', 'circle']);
export class LiveTree {
    root;
    #shown;
    /** @param root its content is replaced by the first tree. */
    constructor(root) {
        this.root = root;
    }
    show(tree) {
        const shown = this.root.firstChild;
        if (this.#shown === undefined || shown === null)
            this.root.replaceChildren(made(tree));
        else
            update(shown, this.#shown, tree);
        this.#shown = tree;
    }
}
function made(node) {
    if (typeof node === 'string')
        return document.createTextNode(node);
    const element = SVG_TAGS.has(node.tag)
        ? document.createElementNS(SVG, node.tag)
        : document.createElement(node.tag);
    for (const [name, value] of Object.entries(node.attributes))
        element.setAttribute(name, value);
    element.append(...node.children.map(made));
    return element;
}
function update(shown, before, after) {
    if (before === after)
        return;
    if (!isSame(before, after))
        return shown.replaceWith(made(after));
    if (typeof before === 'string' || typeof after === 'string') {
        shown.textContent = after;
        return;
    }
    const element = shown;
    for (const name of Object.keys(before.attributes)) {
        if (!(name in after.attributes))
            element.removeAttribute(name);
    }
    for (const [name, value] of Object.entries(after.attributes)) {
        if (before.attributes[name] !== value)
            element.setAttribute(name, value);
    }
    updateChildren(element, before.children, after.children);
}
/** Children with an id are found again wherever they are, the others by their place. */
function updateChildren(parent, before, after) {
    const nodes = [...parent.childNodes];
    const placeOf = new Map(before.flatMap((node, i) => (idOf(node) === undefined ? [] : [[idOf(node), i]])));
    const used = new Set();
    let next = parent.firstChild;
    for (const [i, node] of after.entries()) {
        const place = idOf(node) === undefined ? i : placeOf.get(idOf(node));
        const old = place === undefined ? undefined : before[place];
        const shown = place === undefined ? undefined : nodes[place];
        if (place === undefined || old === undefined || shown === undefined || !isSame(old, node)) {
            parent.insertBefore(made(node), next);
            continue;
        }
        used.add(place);
        update(shown, old, node);
        if (shown === next)
            next = next.nextSibling;
        else
            parent.insertBefore(shown, next);
    }
    for (const [i, node] of nodes.entries())
        if (!used.has(i))
            node.remove();
}
/** Whether one can be made the other by a change of its attributes and content. */
function isSame(before, after) {
    if (typeof before === 'string' || typeof after === 'string')
        return typeof before === typeof after;
    return before.tag === after.tag && idOf(before) === idOf(after);
}
function idOf(node) {
    return typeof node === 'string' ? undefined : node.attributes['id'];
}
