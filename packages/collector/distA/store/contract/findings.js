export {};
//# sourceMappingURL=findings.js.map