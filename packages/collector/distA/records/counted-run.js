export {};
//# sourceMappingURL=counted-run.js.map