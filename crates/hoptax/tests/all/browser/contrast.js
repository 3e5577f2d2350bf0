// Finds visible texts with too little contrast. WCAG 2.2 (success criterion 1.4.3, level AA) requires 4.5 to 1, or 3 to 1 for large
// letters.
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  // Any CSS colour, drawn on white, as [red, green, blue, alpha].
  const parts = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const upon = ([r, g, b, alpha], below) => [r, g, b].map((part, place) => part * alpha + below[place] * (1 - alpha));
  const behind = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.push(parts(getComputedStyle(one).backgroundColor));
    return layers.reverse().reduce((below, layer) => upon(layer, below), [255, 255, 255]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [most, least] = [light(one), light(other)].sort((a, b) => b - a);
    return (most + 0.05) / (least + 0.05);
  };
  const isSeen = (element) =>
    element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !element.closest(".unseen, .skip");
  const poor = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let looked = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element || element.closest("script, style, template") || !isSeen(element))
      continue;
    const style = getComputedStyle(element);
    const drawn = element.namespaceURI.endsWith("svg");
    const colour = parts(drawn ? style.fill : style.color);
    const ground = behind(drawn ? element.closest("svg").parentElement : element);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const found = contrast(upon(colour, ground), ground);
    looked += 1;
    if (found < (large ? 3 : 4.5)) poor.add(`${found.toFixed(2)}: ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
  return { looked, poor: [...poor] };
})()
