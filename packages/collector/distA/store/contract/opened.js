export {};
//# sourceMappingURL=opened.js.map