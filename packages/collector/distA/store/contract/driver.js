export {};
//# sourceMappingURL=driver.js.map