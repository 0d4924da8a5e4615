// Faults of the page, as a person would see them: a list of sentences.
(() => {
const faults = [], box = element => element.getBoundingClientRect();
const brief = element => element.textContent.trim().slice(0, 40);
const seen = element => box(element).width > 1.5 && box(element).height > 1.5 && element.checkVisibility({contentVisibilityAuto: true});
const numbers = colour => colour.match(/[\d.]+/g).map(Number);
const light = colour => {
  const [r, g, b] = numbers(colour).slice(0, 3).map(x => x / 255).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b };
const contrast = (a, b) => { const [high, low] = [light(a), light(b)].sort((x, y) => y - x); return (high + 0.05) / (low + 0.05) };
const paper = getComputedStyle(document.body).backgroundColor;
const hasText = element => [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());

const page = document.documentElement;
if (page.scrollWidth > page.clientWidth) faults.push(`wider than the window: ${page.scrollWidth} of ${page.clientWidth}`);
for (const element of document.querySelectorAll('body *:not(script, style, option, svg *, .u-wrap *)')) {
  if (!seen(element) || element.closest('.hidden')) continue;
  const scrolls = element.closest('.scroll');
  if (hasText(element)) {
    const ratio = contrast(getComputedStyle(element).color, paper);
    if (ratio < 4.5 && !element.disabled) faults.push(`contrast ${ratio.toFixed(1)}: ${brief(element)}`);
    if (!scrolls && (box(element).right > innerWidth + 1 || box(element).left < -1)) faults.push(`cut at the window: ${brief(element)}`) }
  if (!scrolls && element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0 && getComputedStyle(element).display !== 'inline')
    faults.push(`cut: ${element.tagName} ${brief(element)}`) }

for (const svg of document.querySelectorAll('svg:not(.r)')) {
  if (!seen(svg)) continue;
  const title = svg.querySelector('title')?.textContent ?? '', frame = box(svg);
  const described = ['aria-labelledby', 'aria-describedby'].every(name => document.getElementById(svg.getAttribute(name))?.textContent);
  if (!svg.matches('.axis') && (svg.getAttribute('role') !== 'img' || !described)) faults.push(`no name: ${title}`);
  const texts = [...svg.querySelectorAll('text')].filter(text => text.textContent).map(text => [text, box(text)]);
  texts.forEach(([text, a], index) => {
    const what = `${text.textContent} in ${title}`;
    if (contrast(getComputedStyle(text).fill, paper) < 4.5) faults.push(`contrast: ${what}`);
    if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 2 || a.bottom > frame.bottom + 2)
      faults.push(`outside: ${what}`);
    for (const [other, b] of texts.slice(index + 1))
      if (a.left < b.right - 1.5 && b.left < a.right - 1.5 && a.top < b.bottom - 3.5 && b.top < a.bottom - 3.5)
        faults.push(`overlap: ${what} / ${other.textContent}`) }) }
return faults;
})()
