/** Whether it is a host name or address that no other machine reaches. */
export declare function isLoopback(host: string): boolean;
