/** Tags and names of attributes are ours, and never data. */
export function h(tag, attributes = {}, ...children) {
    const kept = {};
    for (const name of Object.keys(attributes)) {
        const value = attributes[name];
        if (value !== false && value !== undefined)
            kept[name] = value === true ? '' : String(value);
    }
    const nodes = [];
    gather(children, nodes);
    return { tag, attributes: kept, children: nodes };
}
function gather(children, into) {
    for (const child of children) {
        if (isList(child))
            gather(child, into);
        else if (typeof child === 'number')
            into.push(String(child));
        else if (child !== false && child !== undefined && child !== '')
            into.push(child);
    }
}
function isList(child) {
    return Array.isArray(child);
}
/* Writes elements as HTML: what a browser shows before, or without, the page's script. */
const ESCAPES = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
};
/** Every element has an end tag, so none of those that HTML calls void may be among them. */
export function toHtml(node) {
    if (typeof node === 'string')
        return escaped(node);
    let html = `<${node.tag}`;
    for (const name of Object.keys(node.attributes))
        html += ` ${name}="${escaped(node.attributes[name] ?? '')}"`;
    html += '>';
    for (const child of node.children)
        html += toHtml(child);
    return `${html}</${node.tag}>`;
}
function escaped(text) {
    return /[&<>"']/.test(text) ? text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '') : text;
}
/** When the state was taken: ages are told from then, by the collector's own clock. */
export function takenAt({ state }) {
    return Date.parse(state.at);
}
/** A part of the page under a heading. @param note a few words beside the heading. */
export function card(id, title, note, ...content) {
    const heading = `${id}-heading`;
    return h('section', { id, class: 'card', 'aria-labelledby': heading }, h('div', { class: 'head' }, h('h2', { id: heading }, title), note !== '' && h('p', { class: 'note' }, note)), content);
}
/** Names and values, one under the other. */
export function facts(list) {
    return h('dl', { class: 'facts' }, list.map(({ name, value, more }) => h('div', {}, h('dt', {}, name), h('dd', {}, value, more !== undefined && h('span', { class: 'more' }, more)))));
}
/** A state in a word, never by colour alone. */
export function chip(mood, text) {
    return h('span', { class: `chip ${mood}` }, text);
}
/** How much of a whole, for the eye: the number stands beside it. */
export function bar(part, className = '') {
    return h('svg', { class: `bar ${className}`.trim(), 'aria-hidden': 'true' }, h('rect', { class: 'whole', width: '100%', height: '100%', rx: 3 }), h('rect', {
        class: 'part',
        width: `${Math.round(Math.min(1, Math.max(0, part)) * 1000) / 10}%`,
        height: '100%',
        rx: 3,
    }));
}
/**
 * A table that stays one, or whose rows become blocks on a narrow screen, where each value bears the name of its column.
 * The roles say what the style sheet would else take from it there.
 * @param rows the first cell of each is its heading.
 */
export function table(caption, columns, rows, narrow = 'stays') {
    const className = (i) => columns[i]?.className;
    return h('table', { role: 'table', class: narrow }, h('caption', {}, caption), h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, columns.map(({ name }, i) => h('th', { role: 'columnheader', scope: 'col', class: className(i) }, name)))), h('tbody', { role: 'rowgroup' }, rows.map((cells) => h('tr', { role: 'row' }, cells.map((cell, i) => i === 0
        ? h('th', { role: 'rowheader', scope: 'row', class: className(i) }, cell)
        : h('td', { role: 'cell', class: className(i), 'data-column': columns[i]?.name }, cell))))));
}
