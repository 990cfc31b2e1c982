// The search takes each word of a question for the beginning of a word, "a" too, which many pages
// have most of. So words that say nothing about a page are left out of a question.
(() => {
  const QUERY = 2; // the type of a message that asks
  const EMPTY = new Set(
    (
      "a about am an and any are as at be been by can could did do does for from get got had has have" +
      " how i if in into is it its may me my of on or our should so some than that the their them then" +
      " there they this to was we were what when where which who why will with would you your"
    ).split(" "),
  );

  const asked = (question) => {
    const words = question.split(/\s+/).filter((word) => !EMPTY.has(word.toLowerCase()));
    return words.join(" ").trim() ? words.join(" ") : question;
  };

  window.Worker = class extends window.Worker {
    postMessage(message, ...rest) {
      const asks = message?.type === QUERY && typeof message.data === "string";
      super.postMessage(asks ? { ...message, data: asked(message.data) } : message, ...rest);
    }
  };
})();
